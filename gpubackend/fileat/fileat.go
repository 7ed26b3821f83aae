// SPDX-License-Identifier: Apache-2.0

// Package fileat reads and writes whole buffers at an offset of a file, with the system calls that
// a device process may make. The file's own position stays. Many parts can be written and read by
// several processors at the same time (WriteParts, ReadParts).
package fileat

import (
	"errors"
	"io"

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
	_, err := all(b, at, unix.ENODATA, func(b []byte, at int64) (int, error) {
		return unix.Pread(fd, b, at)
	})
	return err
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
