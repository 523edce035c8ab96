/**
 * Calls a listener. Reports an exception as the browser reports that of an event listener, so that it does not
 * reach the caller.
 *
 * @internal
 */
export function tell<Given extends unknown[]>(listener: (...given: Given) => void, ...given: Given): void {
  try {
    listener(...given);
  } catch (error) {
    reportError(error);
  }
}
