// SPDX-License-Identifier: Apache-2.0

package device

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/budget"
	"github.com/paracuda/paracuda/gpubackend/cuda"
	"github.com/paracuda/paracuda/gpubackend/device/child/childtest"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/image"
	"github.com/paracuda/paracuda/gpubackend/ledger"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/soft"
	"github.com/paracuda/paracuda/gpubackend/worker"
	"github.com/paracuda/paracuda/internal/leaks"
)

// roleVariable makes the test's program a worker.
const roleVariable = "PARACUDA_TEST_ROLE"

// libraryVariable names a driver's library for workers, instead of the software GPU.
const libraryVariable = "PARACUDA_TEST_LIBRARY"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "worker" {
		runtime.LockOSThread()
		if err := workerMain(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = image.Host() // whose file stays open
	os.Exit(leaks.Main(closing{m}))
}

func workerMain() error {
	control, err := handover.NewConn(os.NewFile(3, "control"))
	if err != nil {
		return err
	}
	return worker.Run(worker.Config{
		Control: control, Log: quiet(),
		NewDriver: func(
			_ string, _ handover.Policy, host *budget.Budget, accounts *ledger.Process,
		) (gpubackend.Driver, error) {
			if library := os.Getenv(libraryVariable); library != "" {
				return cuda.New(cuda.Options{Library: library, Accounts: accounts,
					HostMemory: host, Log: quiet()})
			}
			return &picky{Device: soft.New(soft.Options{Memory: 64 << 20, Accounts: accounts})}, nil
		},
		NewMover: func(e link.Half) (moves.Mover, error) { e.Close(); return nil, nil },
	})
}

// picky is a device that doesn't suit a process with coldVariable once it is warm.
type picky struct {
	*soft.Device
	warm bool
}

const coldVariable = "CUDA_TEST_COLD=1"

func (d *picky) Warm(gpu int) gpubackend.Result {
	d.warm = true
	return d.Device.Warm(gpu)
}

func (d *picky) Suits(env []string) bool {
	return d.Device.Suits(env) && !(d.warm && slices.Contains(env, coldVariable))
}

func quiet() *logrus.Entry {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return logrus.NewEntry(l)
}

// processes starts real workers: this program in another role. Movers are stubs.
type processes struct {
	stubs
	library string // "": workers have the software GPU
}

func (p *processes) Worker(control *os.File) (Process, error) {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), roleVariable+"=worker", libraryVariable+"="+p.library)
	c.ExtraFiles = []*os.File{control}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return executed{c}, nil
}

type executed struct{ *exec.Cmd }

func (c executed) Kill()       { _ = c.Process.Kill() }
func (c executed) Wait() error { return c.Cmd.Wait() }
func (c executed) PID() int    { return c.Process.Pid }

// stubs starts children that only talk, each as its script says.
type stubs struct {
	script func(*stub) // of workers; nil: polite
	mu     sync.Mutex
	live   []*stub
}

// stub is a child in a goroutine.
type stub = childtest.Child

func (s *stubs) start(control *os.File, script func(*stub)) (Process, error) {
	x, err := childtest.Start(control, script)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = append(s.live, x)
	return x, nil
}

func (s *stubs) Worker(control *os.File) (Process, error) {
	script := s.script
	if script == nil {
		script = polite
	}
	return s.start(control, script)
}

func (s *stubs) Mover(control *os.File) (Process, error) { return s.start(control, polite) }

// What children of tests do.
var (
	answers = childtest.Answers
	polite  = childtest.Polite
	starts  = childtest.Starts
)
