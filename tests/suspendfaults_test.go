// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/record"
)

// mustNot runs a command of paracuda's with the control socket, which must fail for that reason.
func (p *policyRig) mustNot(t *testing.T, why, name string, options ...string) {
	t.Helper()
	words := append(append([]string{paracuda, name}, options...), p.socket)
	r := command(t, time.Minute, root, words...)
	if r.exit == 0 || !strings.Contains(r.stderr, why) {
		t.Fatalf("%s: exit code %d, want a refusal, %q:%s", strings.Join(words, " "), r.exit, why,
			tail(r.stderr))
	}
}

// TestRefusedSuspends: commands that don't suit the state in which the VM is are refused, as are
// files that don't suit the VM, and too little memory. Nothing has changed then: the program in the
// VM goes on with what it had.
func TestRefusedSuspends(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, filepath.Join(programs, "keeps"), "0")
		p.commands(t, 500) // all is allocated
		dir := t.TempDir()
		file, other := filepath.Join(dir, "state"), filepath.Join(dir, "other")
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		p.mustNot(t, "the VM is running", "resume")
		p.mustNot(t, "the VM is running", "resume", "--from", other)

		p.must(t, "suspend")
		p.mustNot(t, "the VM is suspended", "suspend")
		p.mustNot(t, "the VM is suspended", "suspend", "--to", file)
		p.mustNot(t, "wasn't suspended to a file", "resume", "--from", other)
		p.set(t, "memory=32M")
		p.mustNot(t, "nothing is lost: try again when there is room", "resume")
		if a := p.answer(t); a.State.State != "suspended" || a.State.Saved {
			t.Fatalf("without room: %+v", a.State)
		}
		p.set(t, "memory=0")
		p.must(t, "resume")
		p.mustNot(t, "the VM is running", "resume")
		p.commands(t, p.commands(t, 1)["commands"]+300)

		p.must(t, "suspend", "--stop-first", "--to", file)
		p.mustNot(t, "the VM is suspended", "suspend")
		p.mustNot(t, "the VM is suspended", "suspend", "--to", other)
		p.mustNot(t, "give it with --from", "resume")
		rewritten(t, file, other, func(h *record.Header) { h.GPU = "cuda" })
		p.mustNot(t, `is of another GPU, "cuda", this one is "soft"`, "resume", "--from", other)
		rewritten(t, file, other, func(h *record.Header) { h.Version = "v0.0.1" })
		p.mustNot(t, "is of another version of Paracuda", "resume", "--from", other)
		rewritten(t, file, other, func(h *record.Header) { h.Saved = h.Saved.Add(-time.Hour) })
		p.mustNot(t, "this isn't the file to which the VM was suspended last", "resume", "--from",
			other)
		if a := p.answer(t); !a.State.Saved || len(a.Programs) != 0 {
			t.Fatalf("after files of others: %+v, %+v", a.State, a.Programs)
		}
		p.must(t, "resume", "--from", file)
		p.mustNot(t, "the VM is running", "resume", "--from", file)
		p.commands(t, 300)
	})
}

// rewritten writes a VM's record to another file, with another header.
func rewritten(t *testing.T, from, to string, change func(*record.Header)) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r, err := record.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	h := r.Header
	change(&h)
	w, err := record.NewWriter(out, h)
	for err == nil {
		var s record.Section
		if s, err = r.Next(); err == nil {
			err = w.Begin(s)
		}
		if err == nil {
			_, err = io.Copy(w, r)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
}

// TestKernelWithoutEnd: while a program's kernel doesn't end, its VM can't be suspended. Each
// attempt ends after stop-grace, names the program, and leaves no file. The VM runs on, and so do
// its other programs. With --kill that program is ended, and the others go on from the file.
func TestKernelWithoutEnd(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		const script = `"$1" & exec "$0" 0`
		p := startPolicyRigOf(t, vm, "sh", "-c", script, filepath.Join(programs, "keeps"),
			build(t, "tests/guests/endless.c", "-ldl"))
		var endless int32
		running := func() map[int32]uint64 {
			now := map[int32]uint64{}
			a := statistics(p.socket)
			if a == nil {
				return nil // it isn't there yet
			}
			for _, x := range a.Programs {
				if now[x.PID] = x.Stats["launches"]; x.Name == "endless" {
					endless = x.PID
				}
			}
			return now
		}
		until(t, p.limit, "both programs run", func() bool {
			now := running()
			return len(now) == 2 && now[endless] > 0
		})
		p.set(t, "stop-grace=200ms")
		file := filepath.Join(t.TempDir(), "state")
		for _, options := range [][]string{nil, {"--to", file}, {"--stop-first", "--to", file}} {
			p.mustNot(t, "busy: ", "suspend", options...)
			if _, err := os.Stat(file); err == nil {
				t.Fatalf("suspend %v: left a file", options)
			}
			if a := p.answer(t); a.State.State != "running" {
				t.Fatalf("suspend %v: the VM is %s", options, a.State.State)
			}
			before := running()
			until(t, p.limit, "the other program goes on", func() bool {
				for pid, n := range running() {
					if pid != endless && n > before[pid] {
						return true
					}
				}
				return false
			})
		}
		p.set(t, "stop-grace=5s") // the other program must stop in time, on a busy host, too
		said := p.must(t, "suspend", "--kill", "--to", file)
		if want := fmt.Sprintf("ended, as its work went on: endless (pid %d)\n", endless); !strings.
			HasPrefix(said, want) {
			t.Fatalf("suspend --kill: %q, want %q", said, want)
		}
		p.must(t, "resume", "--from", file)
		p.commands(t, 300)
	})
}
