// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/internal/patience"
)

// shortage is something that a process can lack: it gets no more of it than it has already.
type shortage struct {
	name          string
	limit, option string                 // the kernel's name for it, and prlimit's
	has           func(p process) uint64 // how much the process has now
	of            []string               // roles
}

var shortages = []shortage{
	{"descriptors", "Max open files", "nofile", func(p process) uint64 {
		list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
		return uint64(len(list))
	}, []string{"keeper", "device", "starter", "mover", "worker"}},
	{"memory", "Max address space", "as", func(p process) uint64 {
		var pages uint64
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
		_, _ = fmt.Sscan(string(text), &pages)
		return pages << 12
	}, []string{"keeper", "device", "starter", "mover", "worker"}},
	{"threads", "Max processes", "nproc", func(process) uint64 { return 1 },
		[]string{"keeper", "device", "starter", "mover", "worker"}},
}

// TestShortages gives each process of a VM no more of something, while programs begin, copy and
// compute. They may fail, but must not wait forever. When there is enough again, the next programs
// must be right.
func TestShortages(t *testing.T) {
	for _, s := range shortages {
		for _, role := range s.of {
			t.Run(s.name+" of the "+role, func(t *testing.T) {
				t.Parallel()
				g := startedBy(t, func(c *exec.Cmd) {
					if s.option == "nproc" {
						byNobody(t, c) // the limit on threads doesn't hold for root
					}
				})
				for _, p := range g.processes(t) {
					if p.role != role {
						continue
					}
					restore := g.lower(p, s)
					g.useAll(t)
					restore()
				}
				g.rights(t)
			})
		}
	}
}

// TestKeeperLacksThreads: the device process dies while the keeper can't start another. The keeper
// says so, lives, and starts one when it can: the VM goes on with it.
func TestKeeperLacksThreads(t *testing.T) {
	g := startedBy(t, func(c *exec.Cmd) { byNobody(t, c) })
	threads := shortages[slices.IndexFunc(shortages, func(s shortage) bool {
		return s.option == "nproc"
	})]
	var restore func()
	all := g.processes(t)
	for _, p := range all {
		if p.role == "keeper" {
			restore = g.lower(p, threads)
		}
	}
	for _, p := range all {
		if p.role == "device" {
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	const says = "the VM has no device until another process can be started"
	for wait := patience.Of(soon); !strings.Contains(g.logged(t), says); {
		select {
		case <-g.exited:
			t.Fatal("the keeper has ended")
		case <-time.After(10 * time.Millisecond):
		}
		if wait.Over() {
			t.Fatalf("want a line: %s", says)
		}
	}
	time.Sleep(2 * time.Second) // it is tried again meanwhile
	restore()
	g.rights(t)
}

// byNobody has the device process run as a user who has no other processes.
func byNobody(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can start processes of another user")
	}
	// This user may not be able to read the tree, which may be in root's home.
	program, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	c.Path = filepath.Join(t.TempDir(), filepath.Base(c.Path))
	// Nobody forks meanwhile: until it executes its program, a child would have the file open to
	// write, and so it couldn't be executed.
	syscall.ForkLock.RLock()
	err = os.WriteFile(c.Path, program, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	c.Args[0] = c.Path
	for _, file := range c.Args {
		dir := filepath.Dir(file)
		for ; strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

const nobody = 65534

// lower limits a process to what it has of something now. restore undoes that, unless it has ended.
func (g *rig) lower(p process, s shortage) (restore func()) {
	g.tb.Helper()
	limit := regexp.MustCompile("(?m)^" + s.limit + ` +\S+ +(\S+)`)
	found := limit.FindStringSubmatch(p.file(g.tb, "limits"))
	if found == nil {
		g.tb.Fatalf("the %s has no limit %q", p.role, s.limit)
	}
	set := func(soft string) error {
		c := exec.Command("prlimit", "--pid", strconv.Itoa(p.pid),
			fmt.Sprintf("--%s=%s:", s.option, soft))
		c.SysProcAttr = g.process.SysProcAttr // users may only change their own processes
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("prlimit: %w: %s", err, out)
		}
		return nil
	}
	if err := set(strconv.FormatUint(s.has(p), 10)); err != nil {
		g.tb.Fatal(err)
	}
	return func() { _ = set(found[1]) }
}

// useAll has a second program begin, and both copy and compute as far as they can. It must not take
// long.
func (g *rig) useAll(t *testing.T) {
	t.Helper()
	wait := patience.Of(4 * soon)
	err := g.channels[witness].start()
	t.Logf("another program begins: %v", err)
	for _, c := range g.channels {
		if !c.open || err != nil {
			continue
		}
		err := c.compute(1)
		if err == nil {
			err = c.move()
		}
		t.Logf("channel %d: %v", c.index, err)
	}
	if wait.Over() {
		t.Errorf("it took longer than %v", 4*soon)
	}
}

// rights checks that the next programs on all channels are right.
func (g *rig) rights(t *testing.T) {
	t.Helper()
	if !g.there() {
		t.Fatal("the device process has ended")
	}
	for i, c := range g.channels {
		if err := c.drop(); err != nil {
			t.Errorf("channel %d is closed: %v", i, err)
		}
		if err := c.start(); err != nil {
			t.Errorf("channel %d is opened: %v", i, err)
		}
		if err := c.move(); err != nil {
			t.Errorf("channel %d copies: %v", i, err)
		}
		if err := c.compute(byte(i + 2)); err != nil {
			t.Errorf("channel %d computes: %v", i, err)
		}
	}
}

// TestLogThatNobodyReads: the pipe to which a device process logs is full from the beginning, and
// no one reads it. Nothing waits for it: programs begin, compute and end.
func TestLogThatNobodyReads(t *testing.T) {
	reader, writer := fullPipe(t)
	g := newGuestBy(t, func(c *exec.Cmd) { c.Stderr = writer })
	if err := g.hello(0); err != nil {
		t.Fatal(err)
	}
	for _, c := range g.channels {
		if err := c.start(); err != nil {
			t.Fatalf("a program begins: %v", err)
		}
		for op := range 200 { // the worker logs that these operations don't exist
			_, _, _ = c.callFor(soon, gpubackend.Op(60000+op), 1)
		}
	}
	g.rights(t)
	for _, c := range g.channels {
		if err := c.drop(); err != nil {
			t.Errorf("a program ends: %v", err)
		}
	}
	if more, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCINQ); err != nil ||
		more != pipeBytes {
		t.Errorf("the pipe has %d bytes, want it still full with %d, %v", more, pipeBytes, err)
	}
}

// pipeBytes is the size of the pipe.
const pipeBytes = 4096

// fullPipe makes a pipe that is full.
func fullPipe(t *testing.T) (reader, writer *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close(); writer.Close() })
	if _, err := unix.FcntlInt(writer.Fd(), unix.F_SETPIPE_SZ, pipeBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Write(make([]byte, pipeBytes)); err != nil {
		t.Fatal(err)
	}
	return reader, writer
}
