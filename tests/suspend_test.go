// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
)

// TestSuspendedUnderLoad suspends and resumes a VM again and again, while a program computes in
// memory that it keeps, and compares it. While the VM is suspended the GPU has that memory back.
func TestSuspendedUnderLoad(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, filepath.Join(programs, "keeps"), "0")
		p.commands(t, 500) // all is allocated
		p.moves(t)
		for range 20 {
			before := p.state(t)
			out, stays := p.suspend(t)
			now := p.state(t)
			if out < 33<<20 || now.State.State != "suspended" || now.State.Image != out ||
				used(now) != stays || used(now)+out != used(before) {
				t.Fatalf("%d bytes moved out (want 33 MiB), %d stay; used before %d, now %d, %+v",
					out, stays, used(before), used(now), now.State)
			}
			n := now.Programs[0].Stats["commands"]
			if after := p.state(t).Programs[0].Stats["commands"]; after != n {
				t.Fatalf("%d commands were executed while the VM was suspended", after-n)
			}
			p.must(t, "resume")
			p.commands(t, n+100)
		}
	})
}

// TestMappedSuspendedUnderLoad does the same with memory that is mapped by hand, while its mappings
// change.
func TestMappedSuspendedUnderLoad(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, filepath.Join(programs, "keepsmapped"), "0")
		p.commands(t, 500)
		p.moves(t)
		for range 20 {
			out, stays := p.suspend(t)
			now := p.state(t)
			// 32 MiB of cudaMalloc, and four pieces that are always there
			if out < 40<<20 || now.State.Image != out || used(now) != stays {
				t.Fatalf("%d bytes moved out (want 40 MiB), %d stay; %d are used, %+v", out, stays,
					used(now), now.State)
			}
			n := now.Programs[0].Stats["commands"]
			p.must(t, "resume")
			p.commands(t, n+100)
		}
	})
}

func used(a *admin.Answer) (sum uint64) {
	for _, m := range a.Memory {
		sum += m.Used
	}
	return sum
}

// state is the device process's answer to stats, with one program.
func (p *policyRig) state(t *testing.T) *admin.Answer {
	t.Helper()
	a := p.answer(t)
	if len(a.Programs) != 1 {
		t.Fatalf("stats: %+v, want one program", a)
	}
	return a
}

// answer is the device process's answer to stats.
func (p *policyRig) answer(t *testing.T) *admin.Answer {
	t.Helper()
	var a admin.Answer
	out := p.must(t, "stats", "--json")
	if err := json.Unmarshal([]byte(out), &a); err != nil || a.State == nil {
		t.Fatalf("stats: %v, %s", err, out)
	}
	return &a
}

// moves fails unless the VM says that it could be saved with its program.
func (p *policyRig) moves(t *testing.T) {
	t.Helper()
	if m := p.state(t).Movable; m == nil || !m.Now {
		t.Fatalf("movable: %+v, want that it can be saved now", m)
	}
	if text := p.must(t, "stats"); !strings.Contains(text, "\nmovable: yes\n") {
		t.Fatalf("stats: want \"movable: yes\": %s", text)
	}
}

// suspend suspends the VM, and returns how many bytes moved out, and how many stay.
func (p *policyRig) suspend(t *testing.T) (out, stays uint64) {
	t.Helper()
	said := p.must(t, "suspend")
	m := regexp.MustCompile(`^suspended: (\d+) bytes moved out, (\d+) bytes stay, in `).
		FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("suspend: %q, want how much moved out and stays", said)
	}
	out, _ = strconv.ParseUint(m[1], 10, 64)
	stays, _ = strconv.ParseUint(m[2], 10, 64)
	return out, stays
}

// must runs a command of paracuda's with the control socket, and returns its output.
func (p *policyRig) must(t *testing.T, name string, options ...string) string {
	t.Helper()
	words := append(append([]string{paracuda, name}, options...), p.socket)
	r := command(t, time.Minute, root, words...)
	if r.exit != 0 {
		t.Fatalf("%s: exit code %d:%s", strings.Join(words, " "), r.exit, tail(r.stderr))
	}
	return r.stdout
}

// mustSave suspends the VM to a file, in a few tries: what a program was about to do may be in the
// way.
func (p *policyRig) mustSave(t *testing.T, file string) {
	t.Helper()
	for range 50 {
		r := command(t, time.Minute, root, paracuda, "suspend", "--to", file, p.socket)
		if r.exit == 0 {
			return
		}
		if !isPassing(r.stderr) {
			t.Fatalf("suspend --to: exit code %d:%s", r.exit, tail(r.stderr))
		}
	}
	t.Fatal("suspend --to was refused 50 times")
}

// TestSuspendedToAFile suspends a VM to a file and resumes it from there, again and again, while a
// program computes and compares. Its worker ends, and another one goes on. From the second time on
// only what has changed is written to the file.
func TestSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keeps") }

// TestGraphsSuspendedToAFile does the same with graphs of all kinds that go to a file on any GPU.
func TestGraphsSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsgraphs") }

// TestGraphPartsSuspendedToAFile does the same with conditions and memory of graphs.
func TestGraphPartsSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsgraphparts") }

// TestArraysSuspendedToAFile does the same with arrays, textures and surfaces.
func TestArraysSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsarrays") }

// TestMappedSuspendedToAFile does the same with memory that is mapped by hand.
func TestMappedSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsmapped") }

// TestObjectsSuspendedToAFile does the same with variables and functions of code, managed and
// registered memory, streams, times between events, a pool, a limit, and threads with streams of
// their own.
func TestObjectsSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsobjects") }

// TestCodeSuspendedToAFile does the same with variables of code that have content and addresses.
func TestCodeSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepscode") }

// TestFunctionsSuspendedToAFile does the same with pointers to functions in device memory.
func TestFunctionsSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsfunctions") }

func suspendedToAFile(t *testing.T, program string) {
	t.Helper()
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		p := startPolicyRigOf(t, vm, filepath.Join(programs, program), "0")
		p.commands(t, 500) // all is allocated
		file := filepath.Join(t.TempDir(), "state")
		for i := range 5 {
			out := p.must(t, "suspend", "--to", file)
			if !strings.HasPrefix(out, "suspended to the file: ") ||
				strings.Contains(out, "changed)") != (i > 0) {
				t.Fatalf("suspend, round %d: %q", i, out)
			}
			if a := p.answer(t); len(a.Programs) != 0 || used(a) != 0 || !a.State.Saved {
				t.Fatalf("%+v, %+v, %d bytes are used, want no program, saved, none", a.Programs,
					a.State, used(a))
			}
			if i == 2 {
				p.damaged(t, file)
			}
			p.must(t, "resume", "--from", file)
			p.commands(t, 300)
		}
		p.suspendedAsDocumented(t)
	})
}

// suspendedAsDocumented suspends the VM to a file, and resumes it, twice: once with the words of
// docs/suspend.md each. Nothing is written early of a program that is in the middle of something,
// such as a capture: then the words are others, and another time is tried.
func (p *policyRig) suspendedAsDocumented(t *testing.T) {
	t.Helper()
	for _, first := range []string{"paracuda suspend --to", "paracuda resume --from"} {
		differs := "it wasn't tried"
		for try := 0; differs != "" && try < 20; try++ {
			file := filepath.Join(t.TempDir(), "state")
			inFile := strings.Contains(first, "resume")
			if inFile {
				p.must(t, "suspend", "--to", file)
			}
			differs = p.documented(t, codeBlock(t, "docs/suspend.md", first), file)
			if inFile {
				p.must(t, "resume", "--from", file)
			}
			p.commands(t, 300)
		}
		if differs != "" {
			t.Error(differs)
		}
	}
}

// figures matches the numbers and times in the output of commands, which differ.
var figures = regexp.MustCompile(`[\d.]+(ms|s)?`)

// asDocumented executes the commands of a code block, and compares their output with the lines
// below them.
func (p *policyRig) asDocumented(t *testing.T, block, file string) {
	t.Helper()
	if differs := p.documented(t, block, file); differs != "" {
		t.Error(differs)
	}
}

// documented says which output differs, empty if none does.
func (p *policyRig) documented(t *testing.T, block, file string) (differs string) {
	t.Helper()
	own := strings.NewReplacer("/var/tmp/training.state", file,
		"/run/paracuda/training/control.sock", p.socket)
	for _, one := range strings.Split("\n"+own.Replace(block), "\nparacuda ")[1:] {
		line, want, below := strings.Cut(strings.TrimSpace(one), "\n")
		args := strings.Fields(line)
		if len(args) < 2 || !below {
			t.Fatalf("%q: want a command, and its output below it", one)
		}
		out := p.must(t, args[0], args[1:len(args)-1]...)
		if figures.ReplaceAllString(strings.TrimSpace(out), "N") !=
			figures.ReplaceAllString(want, "N") {
			differs += fmt.Sprintf("%s printed %q, want what the page has: %q\n", line, out, want)
		}
	}
	return differs
}

// damaged resumes from a copy of the file with some bits changed: that must be refused.
func (p *policyRig) damaged(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for at := len(b) / 3; at < len(b); at += 50 << 10 { // not all sectors of the file are used
		b[at] ^= 0x10
	}
	other := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(other, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, time.Minute, root, paracuda, "resume", "--from", other, p.socket)
	if r.exit == 0 || !strings.Contains(r.stderr, "damaged") {
		t.Fatalf("exit code %d, want a refusal, \"damaged\":%s", r.exit, tail(r.stderr))
	}
}

// TestInAFileThroughDeviceProcesses suspends a VM to a file, and kills and replaces its device
// process. The VM stays suspended, and goes on from the file in the last device process. If one is
// killed in the middle of a change, the VM is in one of the two states, and can be brought to the
// other.
func TestInAFileThroughDeviceProcesses(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		inAFileThroughDeviceProcesses(t, vm, "keeps")
	})
}

// inAFileThroughDeviceProcesses does so while a program computes.
func inAFileThroughDeviceProcesses(t *testing.T, vm frontEnd, program string) {
	t.Helper()
	r := startKeptOf(t, vm, filepath.Join(programs, program), "0")
	file, n := "", 0
	inFile := func() bool {
		var a *admin.Answer
		until(t, time.Minute, "the device says whether it is in a file", func() bool {
			r.state(t)
			a = r.ask() // nil: it was killed since
			return a != nil && a.State != nil
		})
		return a.State.Saved
	}
	to := func() {
		file, n = filepath.Join(t.TempDir(), strconv.Itoa(n)), n+1
	}
	to()
	r.must(t, "suspend", "--to", file)
	for range 2 {
		r.kill()
		if !inFile() {
			t.Fatal("the next device process doesn't know that the VM is in a file")
		}
	}
	if c := command(t, time.Minute, root, paracuda, "device", "--replace", "--control",
		r.socket); c.exit != 0 {
		t.Fatalf("replace: exit code %d:%s", c.exit, tail(c.stderr))
	}
	r.must(t, "resume", "--from", file)
	r.goesOn(t, "from the file")
	seen := map[string]int{}
	for range keptRoundsIn(t, vm, 8, 2) {
		words, was := []string{"resume", "--from", file}, inFile()
		if !was {
			to()
			// else it is killed before the programs stop, nearly every time
			words = []string{"suspend", "--stop-first", "--to", file}
		}
		killed := r.killAfter(150 * time.Millisecond)
		command(t, time.Minute, root, append(append([]string{paracuda}, words...), r.socket)...)
		<-killed
		switch state, is := r.state(t), inFile(); {
		case state == "running":
			seen[words[0]+" then running"]++
			r.goesOn(t, words[0])
		case is:
			seen[words[0]+" then in the file"]++
		default: // the file wasn't kept, or its programs run again
			seen[words[0]+" then suspended"]++
			r.must(t, "resume")
			r.goesOn(t, words[0])
		}
	}
	t.Logf("%v", seen)
	if inFile() {
		r.must(t, "resume", "--from", file)
	}
	r.goesOn(t, "at the end")
}
