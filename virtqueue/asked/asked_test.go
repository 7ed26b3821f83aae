// SPDX-License-Identifier: Apache-2.0

package asked

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// TestAgain: while a call is made its thread gets the signal, and others don't. A call that the
// kernel doesn't restart is interrupted, and shows it.
func TestAgain(t *testing.T) {
	if n := Again(); n != 0 {
		t.Fatalf("%d threads make a call", n)
	}
	waits := make(chan error)
	go func() {
		waits <- Call(func() error {
			// poll isn't restarted after a handler, whatever its flags (signal(7))
			_, err := unix.Poll([]unix.PollFd{}, -1)
			return err
		})
	}()
	for {
		select {
		case err := <-waits:
			if !errors.Is(err, unix.EINTR) {
				t.Error(err)
			}
			if n := Again(); n != 0 {
				t.Errorf("%d threads make a call", n)
			}
			return
		default:
			Again()
		}
	}
}

// TestResult: the call's result is the caller's.
func TestResult(t *testing.T) {
	want := errors.New("no")
	if err := Call(func() error { return want }); !errors.Is(err, want) {
		t.Error(err)
	}
	if err := Call(func() error { return nil }); err != nil {
		t.Error(err)
	}
}
