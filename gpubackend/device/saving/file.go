// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/paracuda/paracuda/gpubackend/fileat"
)

// rewritable is a file that is written from its beginning. It tells the kernel each place: the
// device process may not move a file's own position.
type rewritable struct {
	*os.File
	at int64
}

// Write implements io.Writer.
func (f *rewritable) Write(b []byte) (n int, err error) {
	n, err = fileat.Write(int(f.Fd()), b, f.at)
	if f.at += int64(n); err != nil {
		return n, fmt.Errorf("write the file: %w", err)
	}
	return n, nil
}

// errNoFile says that what was written can't be written anew.
var errNoFile = errors.New("not a file")

// anew empties a file.
func anew(to io.Writer) error {
	f, ok := to.(*rewritable)
	if !ok {
		return errNoFile
	}
	f.at = 0
	return f.Truncate(0)
}
