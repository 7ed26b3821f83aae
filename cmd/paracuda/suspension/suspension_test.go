// SPDX-License-Identifier: Apache-2.0

package suspension

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

var errNo = errors.New("no")

// serve serves the control socket of a VM that appends to its file, until that has six bytes. With
// fails the VM can't be suspended, for that reason.
func serve(t *testing.T, fails error) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "control")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	vm := &admin.VM{
		MayChange: func() error { return nil },
		SuspendTo: func(w io.Writer, _ bool, _, keep func() error, _ func(suspend.Progress)) (
			suspend.Moved, error) {
			f, _ := w.(*os.File)
			info, err := f.Stat()
			switch {
			case err != nil:
				return suspend.Moved{}, err
			case fails != nil:
				return suspend.Moved{}, fails
			case info.Size() == 6:
				return suspend.Moved{}, fmt.Errorf("suspend: %w", record.ErrGrown)
			}
			if _, err := f.WriteAt([]byte("new"), info.Size()); err != nil {
				return suspend.Moved{}, err
			}
			return suspend.Moved{}, keep()
		},
		Guard: func(_ string, f func()) bool { f(); return true },
		Log:   logrus.NewEntry(log),
	}
	ended := make(chan struct{})
	go func() { defer close(ended); vm.Serve(l) }()
	t.Cleanup(func() { l.Close(); <-ended })
	return socket
}

// TestToTheSameFile: the file is appended to until it is too long; then a new one takes its place.
// An error leaves it as it was.
func TestToTheSameFile(t *testing.T) {
	socket := serve(t, nil)
	path := filepath.Join(t.TempDir(), "state")
	for i, want := range []string{"new", "newnew", "new", "newnew"} {
		if err := To(socket, path, Options{}); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if b, err := os.ReadFile(path); string(b) != want {
			t.Fatalf("round %d: it has %q, want %q, %v", i, b, want, err)
		}
	}
	err := To(serve(t, errNo), path, Options{})
	if err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "newnew" {
		t.Errorf("it has %q, %v", b, err)
	}
}
