// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/internal/leaks"
)

// deedVariable has the name of what a test's child does once it is filtered.
const deedVariable = "PARACUDA_SANDBOX_DEED"

func TestMain(m *testing.M) {
	if name := os.Getenv(deedVariable); name != "" {
		os.Exit(runDeed(name))
	}
	// A Starter's thread lives as long as the process.
	os.Exit(leaks.Main(m, "github.com/paracuda/paracuda/gpubackend/sandbox.NewStarter.func1"))
}

// runDeed runs a deed, most of them under a role's filter, and prints "done" if it survives that.
func runDeed(name string) int {
	if f := ownDeeds[name]; f != nil {
		return f()
	}
	switch name {
	case "hide":
		if err := NotDumpable(); err != nil {
			fmt.Println(err)
			return 1
		}
		return stay()
	case "stay":
		return stay()
	case call32:
		forbidden[call32]()
		return 0
	case "look":
		if MayLook() {
			return 1
		}
		return 0
	}
	role, deed, _ := strings.Cut(name, "/")
	f := forbidden[deed]
	if f == nil {
		f = alsoForbidden[role][deed]
	}
	if f == nil {
		f = allowed[deed]
	}
	if f == nil {
		f = answered[role][deed]
	}
	_, _ = time.Now().Zone()
	if err := filterHere(testRoles[role]); err != nil {
		fmt.Println(err)
		return 1
	}
	f()
	fmt.Print("done")
	leave()
	return 0
}

// control is a worker's connection to the device process, and its other end.
var control, device int

// filterHere is Filter, or what it is for a worker that has that connection.
func filterHere(role Role) error {
	if role != SoftWorker && role != CUDAWorker {
		return Filter(role)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		return err
	}
	control, device = fds[0], fds[1]
	program, err := prepare(role, control)
	if err != nil {
		return err
	}
	return filter(program)
}

// leave ends a child that may not open files any more. With coverage, os.Exit would write one, so
// what such a child executes isn't counted.
func leave() { syscall.Exit(0) }

// runFiltered runs a deed in a child.
func runFiltered(t *testing.T, role, deed string) (output string, state syscall.WaitStatus) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), deedVariable+"="+role+"/"+deed)
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.Sys().(syscall.WaitStatus)
}

// has32 says whether this kernel has calls of 32 bits at all: whether a process without a filter
// survives one.
func has32(t *testing.T) bool {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), deedVariable+"="+call32)
	if out, err := c.CombinedOutput(); err != nil {
		fmt.Printf("%s leaves out %s: this kernel has none: %v, %.60q\n", t.Name(), call32, err,
			out)
		return false
	}
	return true
}

// TestForbiddenCallsKill: one call of each class ends a process of any role.
func TestForbiddenCallsKill(t *testing.T) {
	may32 := has32(t)
	for role := range testRoles {
		deeds := slices.AppendSeq(slices.Collect(maps.Keys(forbidden)),
			maps.Keys(alsoForbidden[role]))
		for _, deed := range deeds {
			if slices.Contains(parentsMay[role], deed) {
				continue
			}
			if deed == call32 && !may32 {
				continue
			}
			t.Run(role+"/"+deed, func(t *testing.T) {
				t.Parallel()
				out, state := runFiltered(t, role, deed)
				if !state.Signaled() || state.Signal() != unix.SIGSYS {
					t.Errorf("status %#x, output %q", state, out)
				}
			})
		}
	}
}

func TestAllowedCallsGoOn(t *testing.T) {
	for role := range testRoles {
		deeds := slices.AppendSeq(slices.Collect(maps.Keys(allowed)), maps.Keys(answered[role]))
		for _, deed := range deeds {
			t.Run(role+"/"+deed, func(t *testing.T) {
				t.Parallel()
				if out, state := runFiltered(t, role, deed); state != 0 || out != "done" {
					t.Errorf("status %#x, output %q", state, out)
				}
			})
		}
	}
}

func TestUnknownRole(t *testing.T) {
	if err := Filter(SoftWorker | SoftMover); !errors.Is(err, ErrRole) {
		t.Errorf("error %v", err)
	}
}

// filterTwice filters one thread by itself, and then the process.
func filterTwice() int {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		_, err := setFilter(0, []unix.SockFilter{
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		})
		done <- err
		select {}
	}()
	fmt.Print(<-done, "; ", Filter(SoftWorker))
	return 0
}

// TestThreadThatCannotBeFiltered: Filter fails if one of the threads can't be filtered.
func TestThreadThatCannotBeFiltered(t *testing.T) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), deedVariable+"=filter twice")
	out, err := c.CombinedOutput()
	want := regexp.MustCompile(
		`^<nil>; filter system calls: thread \d+ has a filter of its own$`)
	if err != nil || !want.Match(out) {
		t.Errorf("%v; output %q", err, out)
	}
}

// TestProgramsAreForOneProcess: a process's program has its PID in place of anyPID, and a worker's
// its connection's number in place of anyControl. The programs
// that it is made from stay as they are.
func TestProgramsAreForOneProcess(t *testing.T) {
	const pid = 4711
	for role, program := range programs {
		var of, others, control int
		for _, i := range forThis(program, pid, pid+1) {
			if i.K == pid {
				of++
			}
			if i.K == pid+1 {
				control++
			}
		}
		for _, i := range program {
			if i.K == anyPID {
				others++
			}
		}
		parent := role == Keeper || role == StarterProcess // they signal others, too
		if of == 0 != parent || of != others {
			t.Errorf("role %d: %d times its own number, want %d", role, of, others)
		}
		if worker := role == SoftWorker || role == CUDAWorker; worker != (control > 0) {
			t.Errorf("role %d: %d times its connection's number", role, control)
		}
	}
}
