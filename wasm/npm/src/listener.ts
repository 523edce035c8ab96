/**
 * Calls what a caller gave to be told of something. What it throws is reported as a browser reports it of the
 * listener of an event, and does not reach what it is told of.
 *
 * @internal
 */
export function tell<Given extends unknown[]>(listener: (...given: Given) => void, ...given: Given): void {
  try {
    listener(...given);
  } catch (error) {
    // As `reportError` does, which Safari lacks before 15.4.
    queueMicrotask(() => {
      throw error;
    });
  }
}
