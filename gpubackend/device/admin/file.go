// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// A request to suspend to a file, or to resume from one, comes with the file: this process opens
// none. When it has written one, it says so (Answer.Written), and waits for a second request, Kept,
// which says that the file is on the disk and has its name. Without that nothing is changed.

// errNoFile says that none came along.
var errNoFile = errors.New("there is no file")

// errNotKept says that nobody kept the file.
var errNotKept = errors.New("the file wasn't kept")

// readRequest reads a request and the file that came with it, nil if none did. The reader has what
// follows.
func readRequest(c net.Conn) (line []byte, file *os.File, rest *bufio.Reader, err error) {
	r := &fileReader{Conn: c}
	rest = bufio.NewReaderSize(r, maxRequest)
	line, err = rest.ReadSlice('\n')
	return slices.Clone(line), r.file, rest, err
}

// fileReader reads from a connection, and keeps the first file that comes along on a socket.
type fileReader struct {
	net.Conn
	file *os.File
}

// Read implements io.Reader.
func (r *fileReader) Read(p []byte) (int, error) {
	c, ok := r.Conn.(*net.UnixConn)
	if !ok {
		return r.Conn.Read(p)
	}
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	n, m, _, _, err := c.ReadMsgUnix(p, oob)
	if fds, bad := handover.FilesOf(oob[:m]); bad == nil && len(fds) > 0 {
		if r.file == nil {
			r.file, fds = os.NewFile(uintptr(fds[0]), "state"), fds[1:]
		}
		handover.CloseFiles(fds)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

// maxFiles is how many files are taken from a message: all but the first are closed.
const maxFiles = 4

// withFile suspends to a file, or resumes from one.
func (v *VM) withFile(
	r Request, f *os.File, rest *bufio.Reader, c net.Conn, tell func(suspend.Progress),
	awaited func() error,
) (suspend.Moved, error) {
	if err := regular(f); err != nil {
		return suspend.Moved{}, err
	}
	if r.Resume {
		return v.ResumeFrom(f, tell)
	}
	if r.Away != 0 {
		if err := v.MayGo(r.Away); err != nil {
			return suspend.Moved{}, err
		}
	}
	if !r.Early {
		awaited = nil
	}
	return v.SuspendTo(f, r.Kill, awaited, func() error { return awaitKept(c, rest) }, tell)
}

// regular says why a file isn't a regular one.
func regular(f *os.File) error {
	var info unix.Stat_t
	switch err := unix.Fstat(int(f.Fd()), &info); {
	case err != nil:
		return fmt.Errorf("stat the file: %w", err)
	case info.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it isn't a regular file")
	}
	return nil
}

// expect takes the file of a VM that was away. It is read as a whole, which may take long: the
// client is told now and then that it goes on.
func (v *VM) expect(f *os.File, c net.Conn) error {
	if err := regular(f); err != nil {
		return err
	}
	_ = c.SetDeadline(time.Time{})
	ended := make(chan error, 1)
	go v.Guard("a file", func() {
		err := errors.New("an internal fault: see the log of the device process")
		defer func() { ended <- err }()
		err = v.Expect(f)
	})
	ticker := time.NewTicker(adminTimeout / 4)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
			_ = json.NewEncoder(c).Encode(&Answer{Progress: &suspend.Progress{}})
		}
	}
}

// awaitKept says that the file is written, and waits until it is kept. That may take as long as a
// disk takes.
func awaitKept(c net.Conn, rest *bufio.Reader) error {
	_ = c.SetDeadline(time.Time{})
	if err := json.NewEncoder(c).Encode(&Answer{Written: true}); err != nil {
		return fmt.Errorf("%w: %w", errNotKept, err)
	}
	line, err := rest.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("%w: %w", errNotKept, err)
	}
	var r Request
	if json.Unmarshal(line, &r) != nil || !r.Kept {
		return errNotKept
	}
	return nil
}

// AskWithFile is AskAtLength for a request that takes a file. keep is called when one is written.
func AskWithFile(
	socket string, r Request, f *os.File, keep func() error, tell func(suspend.Progress),
) (*Answer, error) {
	c, err := dialAdmin(socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	line, err := json.Marshal(&r)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("%s is no UNIX socket", socket)
	}
	oob := unix.UnixRights(int(f.Fd()))
	if _, _, err := u.WriteMsgUnix(append(line, '\n'), oob, nil); err != nil {
		return nil, fmt.Errorf("ask %s: %w", socket, err)
	}
	return lastAnswer(socket, c, tell, func() error {
		if err := keep(); err != nil {
			return err
		}
		_ = c.SetDeadline(time.Now().Add(adminTimeout)) // a disk may take its time
		return json.NewEncoder(c).Encode(&Request{Kept: true})
	})
}
