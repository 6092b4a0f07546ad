//! The VFS as SQLite calls it: every method asks the [`Controls`] and hands on to SQLite's default VFS.
//!
//! The methods of files stop at version 2: with shared memory, which write-ahead logging needs, and without
//! mapping the file itself, so that every page is read through `xRead`.

use super::tape::{Change, FileId};
use super::vfs::{Controls, File, Operation};
use rusqlite::ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::size_of;
use std::{ptr, slice};

/// What SQLite holds for an open file. The default VFS's own file follows it in the same memory.
#[repr(C)]
struct OpenFile {
    /// First, since SQLite knows no more of it.
    base: ffi::sqlite3_file,
    kind: File,
    controls: &'static Controls,
    /// If the disk is put on tape.
    on_tape: Option<FileId>,
}

/// What `pAppData` points to.
struct AppData {
    default: *mut ffi::sqlite3_vfs,
    controls: &'static Controls,
}

/// Makes the VFS known to SQLite under `name`, for good.
pub(super) fn register(name: &str, controls: &'static Controls) {
    // SAFETY: both may be called at any time, from any thread. The default VFS is never unregistered.
    let default = unsafe {
        ffi::sqlite3_initialize();
        ffi::sqlite3_vfs_find(ptr::null())
    };
    // SAFETY: null, or SQLite's own VFS, which nothing changes but its link to the next.
    let (file_len, path_len) = unsafe { default.as_ref() }
        .map(|vfs| (vfs.szOsFile, vfs.mxPathname))
        .expect("SQLite has a default VFS");
    let own_len = c_int::try_from(size_of::<OpenFile>()).expect("a small struct");
    let vfs = Box::new(ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: own_len + file_len,
        mxPathname: path_len,
        pNext: ptr::null_mut(),
        zName: CString::new(name).expect("no NUL in a name").into_raw(),
        pAppData: Box::into_raw(Box::new(AppData { default, controls })).cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_pathname),
        // For extensions, which no test loads.
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    });
    // SAFETY: it, its name and its data are never freed, and another VFS of that name there is not.
    let code = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(vfs), 0) };
    assert_eq!(code, ffi::SQLITE_OK, "the VFS {name} was not registered");
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Asks whether the operation may go on, and returns its code from the caller if it may not.
macro_rules! enter {
    ($controls:expr, $operation:expr, $file:expr) => {
        match $controls.enter($operation, $file) {
            ffi::SQLITE_OK => {}
            code => return code,
        }
    };
}

/// Calls the default VFS, or its file.
macro_rules! call {
    ($methods:expr, $method:ident($($argument:expr),*)) => {
        // SAFETY: SQLite's own method, on its own object, with the arguments that SQLite has given.
        unsafe { (*$methods).$method.expect("SQLite's own VFS has every method")($($argument),*) }
    };
}

/// # Safety
/// `vfs` is one that [`register`] has made.
unsafe fn app_data<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a AppData {
    // SAFETY: `register` has put it there, and it is never freed.
    unsafe { &*(*vfs).pAppData.cast::<AppData>() }
}

/// # Safety
/// `file` has been opened by [`open`] and not been closed.
unsafe fn own<'a>(file: *mut ffi::sqlite3_file) -> &'a OpenFile {
    // SAFETY: `open` has made the whole of it.
    unsafe { &*file.cast::<OpenFile>() }
}

/// The default VFS's file.
///
/// # Safety
/// `file` is memory that SQLite holds for a file of this VFS.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: SQLite has reserved `szOsFile` bytes, which are ours and then the default VFS's. Ours end on a
    // boundary of 8 bytes, since they hold pointers.
    unsafe { file.cast::<OpenFile>().add(1).cast() }
}

/// # Safety
/// `path` ends with a NUL.
unsafe fn file_name(path: *const c_char) -> String {
    // SAFETY: as above.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Puts a change of the file on tape.
fn note(own: &OpenFile, change: impl FnOnce(FileId) -> Change) {
    if let Some(file) = own.on_tape {
        own.controls.note(|tape| tape.changed(change(file)));
    }
}

fn index(number: i64) -> usize {
    usize::try_from(number).expect("no place before the start")
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls it with this VFS, and with memory for a file of it.
    let (app, real) = unsafe {
        // Without methods SQLite does not close it; so it stays if it can't be opened.
        (*file).pMethods = ptr::null();
        (app_data(vfs), real(file))
    };
    let kind = match flags {
        flags if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 => File::Main,
        flags if flags & ffi::SQLITE_OPEN_WAL != 0 => File::Wal,
        _ => File::Other,
    };
    enter!(app.controls, Operation::Open, kind);
    let code = call!(app.default, xOpen(app.default, name, real, flags, out_flags));
    if code == ffi::SQLITE_OK {
        let base = ffi::sqlite3_file { pMethods: &raw const METHODS };
        // SAFETY: the name of a file, which ends with a NUL; a temporary file has none.
        let name = (!name.is_null()).then(|| unsafe { file_name(name) });
        let on_tape = name.and_then(|name| app.controls.note(|tape| tape.opened(name)));
        // SAFETY: the memory is SQLite's, large enough, and aligned for pointers.
        unsafe { file.cast::<OpenFile>().write(OpenFile { base, kind, controls: app.controls, on_tape }) };
    }
    code
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: SQLite calls it with this VFS and with the name of a file, which ends with a NUL.
    let (app, path) = unsafe { (app_data(vfs), file_name(name)) };
    let kind = if path.ends_with("-wal") { File::Wal } else { File::Other };
    enter!(app.controls, Operation::Delete, kind);
    let code = call!(app.default, xDelete(app.default, name, sync_folder));
    if code == ffi::SQLITE_OK {
        app.controls.note(|tape| tape.deleted(path, sync_folder != 0));
    }
    code
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls it with a file that is open.
    let own = unsafe { own(file) };
    enter!(own.controls, Operation::Sync, own.kind);
    note(own, |file| Change::Sync { file });
    if own.kind != File::Main {
        // SQLite's own VFS syncs the folder, too, when a log or a journal is synced for the first time.
        note(own, |_| Change::SyncFolder);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite calls it with a file that is open, and with as many bytes as it says.
    let (own, real, bytes) =
        unsafe { (own(file), real(file), slice::from_raw_parts(from.cast::<u8>(), index(len.into()))) };
    enter!(own.controls, Operation::Write, own.kind);
    let code = call!((*real).pMethods, xWrite(real, from, len, offset));
    if code == ffi::SQLITE_OK {
        note(own, |file| Change::Write { file, offset: index(offset), bytes: bytes.into() });
    }
    code
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, len: i64) -> c_int {
    // SAFETY: SQLite calls it with a file that is open.
    let (own, real) = unsafe { (own(file), real(file)) };
    enter!(own.controls, Operation::Truncate, own.kind);
    let code = call!((*real).pMethods, xTruncate(real, len));
    if code == ffi::SQLITE_OK {
        note(own, |file| Change::Truncate { file, len: index(len) });
    }
    code
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite calls it with a file that is open.
    let (own, real) = unsafe { (own(file), real(file)) };
    if flags & ffi::SQLITE_SHM_LOCK != 0 {
        enter!(own.controls, Operation::ShmLock, own.kind);
    }
    if own.controls.gives_every_lock() {
        return ffi::SQLITE_OK;
    }
    call!((*real).pMethods, xShmLock(real, offset, count, flags))
}

/// Methods of a file that go to the default VFS's, if they may.
macro_rules! methods_of_a_file {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? => $method:ident $(, $operation:ident)?;)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $argument: $type)*) $(-> $result)? {
            // SAFETY: SQLite calls it with a file that is open.
            let real = unsafe { real(file) };
            $(
                // SAFETY: as above.
                let own = unsafe { own(file) };
                enter!(own.controls, Operation::$operation, own.kind);
            )?
            call!((*real).pMethods, $method(real $(, $argument)*))
        }
    )*};
}

methods_of_a_file! {
    close() -> c_int => xClose;
    read(to: *mut c_void, len: c_int, offset: i64) -> c_int => xRead, Read;
    file_size(len: *mut i64) -> c_int => xFileSize;
    lock(level: c_int) -> c_int => xLock, Lock;
    unlock(level: c_int) -> c_int => xUnlock;
    check_reserved_lock(held: *mut c_int) -> c_int => xCheckReservedLock;
    file_control(operation: c_int, argument: *mut c_void) -> c_int => xFileControl;
    sector_size() -> c_int => xSectorSize;
    device_characteristics() -> c_int => xDeviceCharacteristics;
    shm_map(region: c_int, len: c_int, extend: c_int, to: *mut *mut c_void) -> c_int => xShmMap, ShmMap;
    shm_barrier() => xShmBarrier;
    shm_unmap(delete: c_int) -> c_int => xShmUnmap;
}

/// Methods of the VFS that go to the default VFS's.
macro_rules! methods_of_the_vfs {
    ($($name:ident($($argument:ident: $type:ty),*) => $method:ident;)*) => {$(
        unsafe extern "C" fn $name(vfs: *mut ffi::sqlite3_vfs $(, $argument: $type)*) -> c_int {
            // SAFETY: SQLite calls it with this VFS.
            let default = unsafe { app_data(vfs) }.default;
            call!(default, $method(default $(, $argument)*))
        }
    )*};
}

methods_of_the_vfs! {
    access(name: *const c_char, flags: c_int, out: *mut c_int) => xAccess;
    full_pathname(name: *const c_char, len: c_int, out: *mut c_char) => xFullPathname;
    randomness(len: c_int, out: *mut c_char) => xRandomness;
    sleep(microseconds: c_int) => xSleep;
    current_time(out: *mut f64) => xCurrentTime;
    last_error(len: c_int, out: *mut c_char) => xGetLastError;
    current_time_int64(out: *mut i64) => xCurrentTimeInt64;
}
