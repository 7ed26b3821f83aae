// SPDX-License-Identifier: Apache-2.0

// Package fileat reads and writes whole buffers at an offset of a file, with the system calls that
// a device process may make. The file's own position stays. Many parts can be written and read by
// several processors at the same time (WriteParts, ReadParts).
package fileat

import (
	"errors"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// Write writes all of b at an offset. It says how much was written before an error.
func Write(fd int, b []byte, at int64) (n int, err error) {
	return all(b, at, io.ErrShortWrite, func(b []byte, at int64) (int, error) {
		return unix.Pwritev2(fd, [][]byte{b}, at, 0) // a device process may make this call
	})
}

// Read fills b from an offset. unix.ENODATA says that the file ends before.
func Read(fd int, b []byte, at int64) error {
	_, err := all(b, at, unix.ENODATA, readAt(fd))
	return err
}

// readAt reads once. A device process may not call pread64. Its call would take -1 for the file's
// position.
func readAt(fd int) func(b []byte, at int64) (int, error) {
	return func(b []byte, at int64) (int, error) {
		if at < 0 {
			return 0, unix.EINVAL
		}
		return unix.Preadv2(fd, [][]byte{b}, at, 0)
	}
}

// all repeats a call until everything is done. none is the error when a call does nothing.
func all(
	b []byte, at int64, none error, do func([]byte, int64) (int, error),
) (done int, err error) {
	for done < len(b) {
		n, err := do(b[done:], at+int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, err
		case n == 0:
			return done, none
		}
		done += n
	}
	return done, nil
}

// File is an open file that is read at offsets, as *os.File does it (io.ReaderAt), but by such a
// call.
type File struct{ syscall.Conn }

// ReadAt implements io.ReaderAt.
func (f File) ReadAt(b []byte, at int64) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { n, failed = all(b, at, io.EOF, readAt(int(fd))) })
	if err == nil {
		err = failed
	}
	return n, err
}

// ReaderAt returns what reads the same. A file is read by such a call.
func ReaderAt(from io.ReaderAt) io.ReaderAt {
	if f, is := from.(syscall.Conn); is {
		return File{f}
	}
	return from
}
