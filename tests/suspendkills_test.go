// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// keepsAgain runs a program again and again, as it may lose its GPU. It ends when the program has
// found a wrong result.
const keepsAgain = `while :; do
	"$0" 0 2>/tmp/said
	grep "not so" /tmp/said && exit 1
done`

// inAChange are the processes that are killed in the middle of a change. A program may only fail if
// it has lost its worker or its mover.
var inAChange = []string{"the command", "device", "worker", "mover"}

// TestAnythingKilledInAChange kills each process that takes part in suspend and resume in the
// middle of it: in the host's memory, to files and from them. Then the VM is in the old state or in
// the new one, and can be brought to the other. A program computes, and finds what it had. Half of
// the files are the ones from which the VM was resumed, and get only what has changed.
func TestAnythingKilledInAChange(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := startKeptOf(t, vm, "sh", "-c", keepsAgain, filepath.Join(programs, "keeps"))
		c := &changing{kept: r, dir: t.TempDir(), seen: map[string]int{}}
		for i := range keptRoundsIn(t, vm, 24, 12) {
			c.round(t, i, inAChange[i%len(inAChange)])
		}
		t.Logf("%v", c.seen)
		c.run(t, "at the end")
		until(t, time.Minute, "one worker is left",
			func() bool { return len(ofRole(r.starter, "worker")) == 1 })
	})
}

// changing is a VM that is suspended and resumed.
type changing struct {
	kept  *keptRig
	dir   string
	file  string // to which it was suspended last
	again bool   // this device process has resumed it from that file
	seen  map[string]int
}

// inFile says whether the VM is suspended to a file.
func (c *changing) inFile(t *testing.T) bool {
	t.Helper()
	c.kept.state(t)
	a := c.kept.ask()
	return a != nil && a.State != nil && a.State.Saved
}

// round begins a change, and kills a process in the middle of it.
func (c *changing) round(t *testing.T, i int, victim string) {
	t.Helper()
	words := c.change(t, i)
	cmd := exec.Command(paracuda, append(words, c.kept.socket)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(rand.N(120 * time.Millisecond))
	switch victim {
	case "the command":
		_ = cmd.Process.Kill()
	case "device":
		c.kept.kill()
	default:
		for _, pid := range ofRole(c.kept.starter, victim) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	failed := cmd.Wait() != nil
	c.again = words[0] == "resume" && len(words) > 1 && !failed ||
		c.again && words[0] != "resume" && victim != "device"
	name := fmt.Sprintf("%s without %s", words[0], victim)
	switch now := c.kept.state(t); {
	case now == "running":
		c.seen[name+": running"]++
		c.computes(t, name)
	case c.inFile(t):
		c.seen[name+": in a file"]++
		if _, err := os.Stat(c.file); err != nil {
			t.Fatalf("%s: the VM is suspended to a file that doesn't exist: %v", name, err)
		}
	default:
		c.seen[name+": suspended"]++
	}
	if i%3 == 2 {
		c.run(t, name)
	}
}

// change is a command that changes the VM's state.
func (c *changing) change(t *testing.T, i int) (words []string) {
	t.Helper()
	switch {
	case c.inFile(t):
		return []string{"resume", "--from", c.file}
	case c.kept.state(t) == "suspended":
		return []string{"resume"}
	case rand.IntN(2) == 0:
		return []string{"suspend"}
	}
	if c.file == "" || !c.again || rand.IntN(2) == 0 {
		c.file = filepath.Join(c.dir, fmt.Sprint(i))
	}
	return []string{"suspend", "--to", c.file}
}

// run resumes the VM if it is suspended, and waits until a program in it computes.
func (c *changing) run(t *testing.T, when string) {
	t.Helper()
	until(t, time.Minute, when+": the VM runs", func() bool {
		if c.kept.state(t) == "running" {
			return true
		}
		words := []string{paracuda, "resume", c.kept.socket}
		if c.inFile(t) {
			words = []string{paracuda, "resume", "--from", c.file, c.kept.socket}
		}
		r := command(t, time.Minute, root, words...)
		c.again = r.exit == 0 && len(words) == 5
		// A command that was killed may have begun a change that goes on, and the program may end.
		if r.exit != 0 && !strings.Contains(r.stderr, "the VM is ") &&
			!strings.Contains(r.stderr, "wasn't suspended to a file") {
			t.Fatalf("%s: exit code %d:%s", when, r.exit, tail(r.stderr))
		}
		return r.exit == 0
	})
	c.computes(t, when)
}

// computes waits until a program has computed for a while: this one, or the next.
func (c *changing) computes(t *testing.T, when string) {
	t.Helper()
	begin := map[int32]uint64{}
	until(t, c.kept.limit, when+": a program computes", func() bool {
		c.kept.alive(t)
		a := c.kept.ask()
		if a == nil {
			return false
		}
		for _, p := range a.Programs {
			n, was := p.Stats["commands"], begin[p.PID]
			if was > 0 && n > was+100 {
				return true
			}
			if was == 0 {
				begin[p.PID] = n
			}
		}
		return false
	})
}
