// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatAProcessWithThreadsCanEnter tries to enter the namespaces of another process. Those of
// users and mounts can't be entered. That of PIDs can, for children only, and those of network and
// IPC, for one thread only. A warm worker has threads of CUDA's, so it can't enter a VM's
// namespaces later: it is started in them. So warm workers belong to a VM, and the arbiter only
// bounds how many there are.
func TestWhatAProcessWithThreadsCanEnter(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces of others can be entered by root only")
	}
	runtime.LockOSThread() // the other process ends with the thread that has started it
	defer runtime.UnlockOSThread()
	other := exec.Command("sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	err := InUserNamespace(other.SysProcAttr)
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Skipf("the host allows no namespaces: %v", err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	for _, x := range []struct {
		name   string
		enters bool
	}{{"user", false}, {"mnt", false}, {"pid", true}, {"net", true}, {"ipc", true}} {
		its := fmt.Sprintf("/proc/%d/ns/%s", other.Process.Pid, x.name)
		before := mustLink(t, "/proc/self/ns/"+x.name)
		var now string
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // and the thread ends with the goroutine
			err := enter(its)
			now = mustLink(t, "/proc/thread-self/ns/"+x.name)
			done <- err
		}()
		switch err := <-done; {
		case x.enters && err != nil:
			t.Errorf("%s can't be entered: %v", x.name, err)
		case !x.enters && !errors.Is(err, unix.EINVAL):
			t.Errorf("%s: %v, want EINVAL", x.name, err)
		}
		if entered := now == mustLink(t, its); entered != (x.name == "net" || x.name == "ipc") {
			t.Errorf("%s: the thread is in it: %v", x.name, entered)
		}
		if mustLink(t, "/proc/self/ns/"+x.name) != before {
			t.Errorf("%s: the process's other threads have changed", x.name)
		}
	}
}

// enter has the calling thread enter a namespace.
func enter(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), 0)
}

// mustLink is what a link names.
func mustLink(t *testing.T, path string) string {
	to, err := os.Readlink(path)
	if err != nil {
		t.Error(err)
	}
	return to
}
