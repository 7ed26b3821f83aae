// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// rewritable is a file that is written from its beginning. It tells the kernel each place: the
// device process may not move a file's own position.
type rewritable struct {
	*os.File
	at int64
}

// Write implements io.Writer.
func (f *rewritable) Write(b []byte) (n int, err error) {
	for n < len(b) {
		m, err := unix.Pwritev2(int(f.Fd()), [][]byte{b[n:]}, f.at, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, fmt.Errorf("write the file: %w", err)
		case m == 0:
			return n, io.ErrShortWrite
		}
		n, f.at = n+m, f.at+int64(m)
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
