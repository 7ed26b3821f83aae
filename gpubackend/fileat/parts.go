// SPDX-License-Identifier: Apache-2.0

package fileat

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/overlap"
)

// chunkBytes is how much of a file one processor fills at a time: whole pages.
const chunkBytes = 256 << 10

// WriteParts writes parts one behind the other, from an offset on. It says how much was written
// before an error.
//
// A file has a lock, so that writes wait for each other, and in a file in memory (tmpfs) they take
// long: pages are made and copied to. There, if much is written, several processors fill a mapping
// of the file.
func WriteParts(fd int, parts [][]byte, at int64) (n int, err error) {
	bytes := 0
	for _, b := range parts {
		bytes += len(b)
	}
	if bytes > 8*chunkBytes && overlap.Width() > 1 && inMemory(fd) {
		if fill(fd, parts, at, bytes) == nil {
			return bytes, nil
		}
		// what is wrong, if anything is, a write will say
	}
	for _, b := range parts {
		k, err := Write(fd, b, at+int64(n))
		if n += k; err != nil {
			return n, err
		}
	}
	return n, nil
}

// inMemory says whether a file is in memory.
func inMemory(fd int) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(fd, &s) == nil && s.Type == unix.TMPFS_MAGIC
}

// fill is WriteParts by a mapping. After an error the file may be longer than it was, by at most
// what was to be written.
func fill(fd int, parts [][]byte, at int64, bytes int) error {
	end := at + int64(bytes)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at the file: %w", err)
	}
	if st.Size < end {
		if err := unix.Ftruncate(fd, end); err != nil {
			return fmt.Errorf("make the file longer: %w", err)
		}
	}
	before := int(at % int64(os.Getpagesize()))
	m, err := unix.Mmap(fd, at-int64(before), before+bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the file: %w", err)
	}
	chunks := (len(m) + chunkBytes - 1) / chunkBytes
	err = overlap.Each(chunks, func(i int) error {
		from := i * chunkBytes
		to := min(from+chunkBytes, len(m))
		if err := makePages(m[from:to]); err != nil {
			return err
		}
		return copyParts(m[from:to], parts, before-from)
	})
	return errors.Join(err, unix.Munmap(m))
}

// errGone says that somebody else has cut the file off.
var errGone = errors.New("the file has become shorter")

// makePages makes the pages of a chunk. One that can't be made is an error here, and no fault
// later.
func makePages(chunk []byte) error {
	if err := unix.Madvise(chunk, unix.MADV_POPULATE_WRITE); err != nil {
		return fmt.Errorf("take room for the file: %w", err)
	}
	return nil
}

// copyParts copies to a chunk what it has of parts that begin at an offset, which may lie before
// it.
func copyParts(chunk []byte, parts [][]byte, at int) (err error) {
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		switch p := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // of the fault
			err = errGone
		default:
			panic(p)
		}
	}(debug.SetPanicOnFault(true))
	for _, b := range parts {
		switch end := at + len(b); {
		case at >= len(chunk):
			return nil
		case end > 0:
			copy(chunk[max(0, at):], b[max(0, -at):])
		}
		at += len(b)
	}
	return nil
}

// ReadParts fills parts from what a file has one behind the other, from an offset on, several at
// the same time.
func ReadParts(parts [][]byte, at int64, read func(b []byte, at int64) error) error {
	starts := make([]int64, len(parts))
	for i, b := range parts {
		starts[i] = at
		at += int64(len(b))
	}
	return overlap.Each(len(parts), func(i int) error { return read(parts[i], starts[i]) })
}
