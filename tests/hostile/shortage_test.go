// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/internal/patience"
)

// shortage is something that a process can lack: it gets nothing more than it has already. Left out
// is what ends the device for good: memory or threads that the starter process lacks.
type shortage struct {
	name          string
	limit, option string                 // as the kernel calls it, and prlimit
	has           func(p process) uint64 // what it has now
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
	}, []string{"keeper", "device", "mover", "worker"}},
	{"threads", "Max processes", "nproc", func(process) uint64 { return 1 },
		[]string{"mover", "worker"}},
}

// TestShortages takes from each process of a VM what it needs more of, while a program begins,
// copies and computes. The program may fail, but none waits for ever; once there is enough again,
// the next programs are right.
func TestShortages(t *testing.T) {
	for _, s := range shortages {
		for _, role := range s.of {
			t.Run(s.name+" of the "+role, func(t *testing.T) {
				t.Parallel()
				g := startedBy(t, func(c *exec.Cmd) {
					if s.option == "nproc" {
						byNobody(t, c) // root has as many threads as it likes
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

// byNobody has a device process belong to a user who has no other.
func byNobody(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can start processes of another user")
	}
	// The tree may lie where nobody may look, such as in root's home.
	program, err := os.ReadFile(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	c.Path = filepath.Join(t.TempDir(), filepath.Base(c.Path))
	if err := os.WriteFile(c.Path, program, 0o755); err != nil {
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

// lower gives a process no more of something than it has. restore undoes that, if it hasn't ended.
func (g *guest) lower(p process, s shortage) (restore func()) {
	g.t.Helper()
	limit := regexp.MustCompile("(?m)^" + s.limit + ` +\S+ +(\S+)`)
	found := limit.FindStringSubmatch(p.file(g.t, "limits"))
	if found == nil {
		g.t.Fatalf("the %s has no limit %q", p.role, s.limit)
	}
	set := func(soft string) error {
		c := exec.Command("prlimit", "--pid", strconv.Itoa(p.pid),
			fmt.Sprintf("--%s=%s:", s.option, soft))
		c.SysProcAttr = g.process.SysProcAttr // a user changes his own processes only
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("prlimit: %w: %s", err, out)
		}
		return nil
	}
	if err := set(strconv.FormatUint(s.has(p), 10)); err != nil {
		g.t.Fatal(err)
	}
	return func() { _ = set(found[1]) }
}

// useAll has a second program begin and both copy and compute, as far as they can, in bounded time.
func (g *guest) useAll(t *testing.T) {
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
		t.Error("it took long")
	}
}

// rights fails the test if the next programs on all channels aren't right.
func (g *guest) rights(t *testing.T) {
	t.Helper()
	if !g.alive() {
		t.Fatal("the device has ended")
	}
	for i, c := range g.channels {
		if err := c.drop(); err != nil {
			t.Errorf("channel %d: %v", i, err)
		}
		if err := c.start(); err != nil {
			t.Errorf("channel %d: %v", i, err)
		}
		if err := c.move(); err != nil {
			t.Errorf("channel %d copies: %v", i, err)
		}
		if err := c.compute(byte(i + 2)); err != nil {
			t.Errorf("channel %d: %v", i, err)
		}
	}
}

// TestLogThatNobodyReads: the pipe to which a device process logs is full from the beginning.
// Nothing waits for whoever doesn't read it: programs begin, compute and end.
func TestLogThatNobodyReads(t *testing.T) {
	reader, writer := fullPipe(t)
	g := newGuestBy(t, func(c *exec.Cmd) { c.Stderr = writer })
	if err := g.hello(); err != nil {
		t.Fatal(err)
	}
	for _, c := range g.channels {
		if err := c.start(); err != nil {
			t.Fatalf("a program begins: %v", err)
		}
		for op := range 200 { // of which the worker says that there are none
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
		t.Errorf("the pipe has %d of %d bytes, %v", more, pipeBytes, err)
	}
}

// pipeBytes is what a pipe takes.
const pipeBytes = 4096

// fullPipe makes a pipe that takes nothing more.
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
