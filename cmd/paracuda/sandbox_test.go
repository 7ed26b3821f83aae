// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// childStatus starts a worker and a mover, and passes on what /proc says of each.
func childStatus(t *testing.T, s *children.Home, look func(role string, status, environ []string)) {
	t.Helper()
	eachChild(t, s, func(role string, pid int) {
		look(role, procFile(t, pid, "status", "\n"), procFile(t, pid, "environ", "\x00"))
	})
}

// eachChild starts a worker, then a mover, and calls look while each runs.
func eachChild(t *testing.T, s *children.Home, look func(role string, pid int)) {
	t.Helper()
	for role, start := range map[string]func(*os.File) (device.Process, error){
		"worker": s.Worker, "mover": s.Mover,
	} {
		conn, theirs, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		p, err := start(theirs)
		if err != nil {
			t.Fatal(err)
		}
		pid := p.(interface{ PID() int }).PID()
		look(role, pid)
		p.Kill()
		_ = p.Wait()
		theirs.Close()
		conn.Close()
	}
}

// procFile waits until the file has text. A parent learns of its child's exec when the kernel
// closes a descriptor, and the child's environment may not be laid out by then.
func procFile(t *testing.T, pid int, name, separator string) []string {
	t.Helper()
	var b []byte
	for deadline := time.Now().Add(time.Minute); len(b) == 0; time.Sleep(time.Millisecond) {
		var err error
		if b, err = os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)); err != nil {
			t.Fatal(err)
		}
		if len(b) == 0 && time.Now().After(deadline) {
			t.Fatalf("%s of %d stays empty", name, pid)
		}
	}
	return strings.Split(string(b), separator)
}

func testHome(
	t *testing.T, gpu string, o *deviceOptions,
) (*children.Home, *bytes.Buffer) {
	t.Helper()
	logger := logrus.New()
	var said bytes.Buffer
	logger.SetOutput(&said)
	o.logs = logs.Flags{Level: "error"}
	home, err := o.home(gpu, os.Stderr, logrus.NewEntry(logger), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.End(nil) })
	return home, &said
}

// TestChildrenAreConfined: children have no privileges, and only the variables that they may have.
func TestChildrenAreConfined(t *testing.T) {
	t.Setenv("PARACUDA_TEST_SECRET", "x")
	t.Setenv("PARACUDA_TEST_WANTED", "y")
	t.Setenv("CUDA_TEST_VARIABLE", "z")
	s, said := testHome(t, gpuCUDA, &deviceOptions{
		sandbox: true, fd: -1, arbiter: noArbiter,
		passEnv: []string{"PARACUDA_TEST_WANTED", mainVariable},
	})
	childStatus(t, s, func(role string, status, environ []string) {
		want := []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"}
		if os.Getuid() == 0 {
			want = append(want, "CapBnd:\t0000000000000000")
		}
		for _, line := range want {
			if !slices.Contains(status, line) {
				t.Errorf("%s: no %q", role, line)
			}
		}
		if slices.Contains(environ, "PARACUDA_TEST_SECRET=x") {
			t.Errorf("%s: has a variable that it doesn't need", role)
		}
		for _, v := range []string{"PARACUDA_TEST_WANTED=y", "CUDA_TEST_VARIABLE=z"} {
			if !slices.Contains(environ, v) {
				t.Errorf("%s: lacks %s", role, v)
			}
		}
	})
	if said.Len() > 0 {
		t.Errorf("logged %s", said)
	}
}

// TestChildrenAreAlone: workers and mover see neither the host's files nor its processes. All of a
// VM's children share their namespaces.
func TestChildrenAreAlone(t *testing.T) {
	for _, gpu := range []string{gpuSoft, gpuCUDA} {
		t.Run(gpu, func(t *testing.T) { testAlone(t, gpu) })
	}
}

func testAlone(t *testing.T, gpu string) {
	s, said := testHome(t, gpu, &deviceOptions{
		sandbox: true, fd: -1, arbiter: noArbiter, passEnv: []string{mainVariable},
	})
	namespaces := map[string]bool{}
	eachChild(t, s, func(role string, pid int) {
		for _, kind := range []string{"mnt", "pid", "net", "ipc"} {
			theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
			ours, _ := os.Readlink("/proc/self/ns/" + kind)
			if err != nil || theirs == ours {
				if os.Geteuid() != 0 {
					t.Skipf("an ordinary user has no namespace %s here: %v, %s", kind, err, said)
				}
				t.Fatalf("%s: has the host's namespace %s, %v", role, kind, err)
			}
			namespaces[theirs] = true
		}
		root := fmt.Sprintf("/proc/%d/root/", pid)
		for _, path := range []string{"etc/passwd", "root/.ssh", "home", "var", "usr/bin", "run"} {
			if _, err := os.Stat(root + path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: it has /%s: %v", role, path, err)
			}
		}
		if err := os.Mkdir(root+"new", 0o700); !errors.Is(err, unix.EROFS) {
			t.Errorf("%s: its root can be written: %v", role, err)
		}
		for _, path := range []string{"dev/null", "paracuda", "proc/1/status", "proc/meminfo"} {
			if _, err := os.Stat(root + path); err != nil {
				t.Errorf("%s: lacks %v", role, err)
			}
		}
		if _, err := os.Stat(root + fmt.Sprintf("proc/%d", os.Getpid())); os.Getpid() > 100 &&
			err == nil {
			t.Errorf("%s: sees this process", role)
		}
	})
	if len(namespaces) != 4 {
		t.Errorf("worker and mover don't share theirs: %v", namespaces)
	}
}

func TestNoSandbox(t *testing.T) {
	t.Setenv("PARACUDA_TEST_SECRET", "x")
	s, said := testHome(t, gpuSoft, &deviceOptions{})
	if !strings.Contains(said.String(), "--sandbox=off") {
		t.Errorf("logged %q, no warning", said)
	}
	childStatus(t, s, func(role string, _, environ []string) {
		if !slices.Contains(environ, "PARACUDA_TEST_SECRET=x") {
			t.Errorf("%s: the environment isn't passed on", role)
		}
	})
}
