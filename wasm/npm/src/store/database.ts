import { complete, Fault, fault, result } from "./idb.js";

/** The object store with the records of entries, numbered in the order of storing. */
export const ENTRIES = "entries";
/** The object store with the rows of the directory. */
export const DIRECTORY = "directory";
/** The object store with the pieces of payloads that are too large for one transaction. */
export const PIECES = "pieces";
/** The object store with the rows of the journal, numbered. */
export const JOURNAL = "journal";
/** The object store with notes about the database. */
const NOTES = "notes";

/** The version of the layout of the object stores. */
const VERSION = 1;

/** The timeout of opening, in milliseconds: another tab may keep the database open. */
const PATIENCE = 3000;
/** The number of timers that make up the timeout. While a page computes, only one of them can elapse. */
const STRETCHES = 3;

/** The connection to a database: closed when another tab upgrades or deletes the database, and reopened. */
export class Database {
  #name: string;
  #connection: IDBDatabase | undefined;
  #connecting: Promise<IDBDatabase> | undefined;
  #isClosed = false;
  /** Whether large values are stored as Blobs: yes, until a Blob could not be read back. */
  storesBlobs = true;
  /** How often it was opened. Between two openings, it may have been deleted and recreated. */
  openings = 0;

  private constructor(name: string) {
    this.#name = name;
  }

  /** Opens the database, or creates it. Rejects with a {@link Fault}. */
  static async open(name: string): Promise<Database> {
    const database = new Database(name);
    await database.#connect();
    return database;
  }

  /** Finds out whether large values can be stored as Blobs. Reads do not wait for this. */
  async probe(): Promise<void> {
    this.storesBlobs = await this.#blobsSurvive();
  }

  /**
   * Begins a transaction: synchronously if there is a connection, so that calls are stored in their order;
   * otherwise after reopening the database.
   */
  begin(stores: string | string[], mode: IDBTransactionMode): IDBTransaction | Promise<IDBTransaction> {
    if (this.#connection !== undefined) {
      try {
        return this.#connection.transaction(stores, mode);
      } catch (error) {
        if (fault(error).reason !== "closing") throw fault(error);
        this.#connection = undefined;
      }
    }
    return this.#connect().then((connection) => connection.transaction(stores, mode));
  }

  /** Whether a transaction belongs to the current connection. */
  isCurrent(transaction: IDBTransaction): boolean {
    return transaction.db === this.#connection;
  }

  /** Closes the database for good. */
  close(): void {
    this.#isClosed = true;
    this.#connection?.close();
    this.#connection = undefined;
  }

  #connect(): Promise<IDBDatabase> {
    if (this.#isClosed) return Promise.reject(new Fault("closed"));
    this.#connecting ??= connect(this.#name).then((connection) => this.#adopt(connection)).finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  #adopt(connection: IDBDatabase): IDBDatabase {
    const release = () => {
      connection.close();
      if (this.#connection === connection) this.#connection = undefined;
    };
    // A tab that upgrades or deletes the database waits until all others have closed it.
    connection.onversionchange = release;
    connection.onclose = release;
    if (this.#isClosed) {
      connection.close();
      throw new Fault("closed");
    }
    this.#connection = connection;
    this.openings += 1;
    return connection;
  }

  /**
   * Stores a Blob and reads it again, once in the life of the database: some browsers cannot, or not in
   * private windows.
   */
  async #blobsSurvive(): Promise<boolean> {
    try {
      const known = await result((await this.begin(NOTES, "readonly")).objectStore(NOTES).get("blobs"));
      if (typeof known === "boolean") return known;
      const survive = await this.#blobReturns().catch(() => false);
      await this.#note("blobs", survive);
      return survive;
    } catch {
      // This failure is not about Blobs: the database is full, or missing.
      return true;
    }
  }

  async #blobReturns(): Promise<boolean> {
    await this.#note("blobs", new Blob(["probe"]));
    const read = await result((await this.begin(NOTES, "readonly")).objectStore(NOTES).get("blobs"));
    return read instanceof Blob && (await read.text()) === "probe";
  }

  async #note(key: string, value: unknown): Promise<void> {
    const transaction = await this.begin(NOTES, "readwrite");
    transaction.objectStore(NOTES).put(value, key);
    await complete(transaction);
  }
}

async function connect(name: string): Promise<IDBDatabase> {
  let request: IDBOpenDBRequest;
  try {
    // Reading it throws if a page may not have storage; in some private windows it is undefined.
    request = globalThis.indexedDB.open(name, VERSION);
  } catch (error) {
    throw fault(error);
  }
  request.onupgradeneeded = () => {
    const database = request.result;
    database.createObjectStore(ENTRIES);
    database.createObjectStore(DIRECTORY, { autoIncrement: true });
    database.createObjectStore(PIECES);
    database.createObjectStore(JOURNAL, { autoIncrement: true });
    database.createObjectStore(NOTES);
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => {
    const wait = (stretches: number) => {
      if (stretches === 0) resolve(undefined);
      else timer = setTimeout(wait, PATIENCE / STRETCHES, stretches - 1);
    };
    wait(STRETCHES);
  });
  const opened = await Promise.race([result(request), late]).finally(() => clearTimeout(timer));
  if (opened !== undefined) return checked(opened);
  // A late connection would only block other tabs.
  request.onsuccess = () => request.result.close();
  throw new Fault("busy");
}

/** Refuses a database of this name that another program created. */
function checked(database: IDBDatabase): IDBDatabase {
  const { objectStoreNames: names } = database;
  if ([ENTRIES, DIRECTORY, PIECES, JOURNAL, NOTES].every((name) => names.contains(name))) return database;
  database.close();
  throw new Fault("foreign");
}
