// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/paracuda/paracuda/internal/leaks"
)

// buildDir is the folder in which the program under test is built.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
	buildDir = dir
	// A Starter's thread lives as long as the process.
	code := leaks.Main(m, "github.com/paracuda/paracuda/gpubackend/sandbox.NewStarter.func1")
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the program under test, once for all tests, unless PARACUDA names one.
var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("PARACUDA"); path != "" {
		return path, nil
	}
	path := filepath.Join(buildDir, "paracuda")
	if out, err := exec.Command("go", "build", "-o", path,
		"../../cmd/paracuda").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// rig is a guest of a device process that a test has started.
type rig struct {
	*guest
	device
}

// device is a process that a test has started: the device process's keeper.
type device struct {
	process *exec.Cmd
	exited  chan struct{}
	log     string
}

func newGuest(t *testing.T) *rig {
	t.Helper()
	return newGuestBy(t, func(*exec.Cmd) {})
}

// newGuestBy makes a guest. prepare may change how its device process is started.
func newGuestBy(t testing.TB, prepare func(*exec.Cmd)) *rig {
	t.Helper()
	d, at := newDevice(t, prepare)
	return &rig{connect(t, at), d}
}

// opened opens both channels of a guest.
func (g *rig) opened(t testing.TB) *rig {
	t.Helper()
	if err := g.begin(); err != nil {
		t.Fatal(err)
	}
	return g
}

// newDevice starts a device process, and connects no front end.
func newDevice(t testing.TB, prepare func(*exec.Cmd)) (device, *target) {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d := device{log: filepath.Join(dir, "log"), exited: make(chan struct{})}
	socket := filepath.Join(dir, "socket")
	log, err := os.Create(d.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	d.process = exec.Command(program, append([]string{"device", "--socket-path", socket},
		DeviceOptions()...)...)
	d.process.Stderr = log
	prepare(d.process)
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = d.process.Wait()
		close(d.exited)
	}()
	t.Cleanup(func() {
		_ = d.process.Process.Kill()
		<-d.exited
		if said, err := os.ReadFile(d.log); err == nil && t.Failed() {
			t.Logf("the end of the device's log: %s", said[max(0, len(said)-4000):])
		}
	})
	at, err := findTarget(socket)
	if err != nil {
		t.Fatal(err)
	}
	return d, at
}

// there says whether the keeper is still there: it starts the device process again, if that dies.
func (d *device) there() bool {
	select {
	case <-d.exited:
		return false
	default:
		return true
	}
}
