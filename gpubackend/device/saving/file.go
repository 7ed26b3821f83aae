// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/paracuda/paracuda/gpubackend/fileat"
)

// rewritable is a file that is written from a place on, mostly from its beginning, and can be
// written anew from there. It tells the kernel where each write goes: the device process may not
// move a file's own position.
type rewritable struct {
	*os.File
	start, at int64
}

// Write implements io.Writer.
func (f *rewritable) Write(b []byte) (n int, err error) {
	n, err = fileat.Write(int(f.Fd()), b, f.at)
	if f.at += int64(n); err != nil {
		return n, fmt.Errorf("write the file: %w", err)
	}
	return n, nil
}

// WriteParts implements record.PartsWriter.
func (f *rewritable) WriteParts(parts [][]byte) error {
	n, err := fileat.WriteParts(int(f.Fd()), parts, f.at)
	if f.at += int64(n); err != nil {
		return fmt.Errorf("write the file: %w", err)
	}
	return nil
}

// errNoFile says that what was written can't be written anew.
var errNoFile = errors.New("not a file")

// anew takes away what was written to a file.
func anew(to io.Writer) error {
	f, ok := to.(*rewritable)
	if !ok {
		return errNoFile
	}
	return f.anew()
}

func (f *rewritable) anew() error {
	f.at = f.start
	return f.Truncate(f.start)
}
