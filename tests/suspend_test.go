// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
)

// TestSuspendedUnderLoad suspends and resumes a VM again and again, in which a program computes in
// memory that it keeps, and compares it. Meanwhile the GPU has that memory back.
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
				t.Fatalf("%d bytes moved out, %d stay; used before %d, now %d, %+v",
					out, stays, used(before), used(now), now.State)
			}
			n := now.Programs[0].Stats["commands"]
			if after := p.state(t).Programs[0].Stats["commands"]; after != n {
				t.Fatalf("%d commands were executed while the VM is suspended", after-n)
			}
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

// state is what the device says, with one program.
func (p *policyRig) state(t *testing.T) *admin.Answer {
	t.Helper()
	a := p.answer(t)
	if len(a.Programs) != 1 {
		t.Fatalf("stats: %+v", a)
	}
	return a
}

// answer is what the device says.
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
		t.Fatalf("movable: %+v", m)
	}
	if text := p.must(t, "stats"); !strings.Contains(text, "\nmovable: yes\n") {
		t.Fatalf("stats: %s", text)
	}
}

// suspend says how many bytes moved out, and how many stay.
func (p *policyRig) suspend(t *testing.T) (out, stays uint64) {
	t.Helper()
	said := p.must(t, "suspend")
	m := regexp.MustCompile(`^suspended: (\d+) bytes moved out, (\d+) bytes stay, in `).
		FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("suspend: %q", said)
	}
	out, _ = strconv.ParseUint(m[1], 10, 64)
	stays, _ = strconv.ParseUint(m[2], 10, 64)
	return out, stays
}

// must runs a command of paracuda's with the control socket, and returns what it said.
func (p *policyRig) must(t *testing.T, name string, options ...string) string {
	t.Helper()
	words := append(append([]string{paracuda, name}, options...), p.socket)
	r := command(t, time.Minute, root, words...)
	if r.exit != 0 {
		t.Fatalf("%s: exit code %d:%s", strings.Join(words, " "), r.exit, tail(r.stderr))
	}
	return r.stdout
}

// TestSuspendedToAFile suspends a VM to a file and resumes it from there, again and again, in the
// middle of a program that computes and compares: its worker ends, and another one goes on. From
// the second time on the file gets what has changed.
func TestSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keeps") }

// TestGraphsSuspendedToAFile does so with graphs of all kinds that can be saved.
func TestGraphsSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsgraphs") }

// TestArraysSuspendedToAFile does so with arrays, textures and surfaces.
func TestArraysSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsarrays") }

// TestObjectsSuspendedToAFile does so with variables and functions of code, managed and registered
// memory, streams, times between events, a pool, a limit, and threads with streams of their own.
func TestObjectsSuspendedToAFile(t *testing.T) { suspendedToAFile(t, "keepsobjects") }

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
				t.Fatalf("%+v, %+v, %d bytes are used", a.Programs, a.State, used(a))
			}
			if i == 2 {
				p.damaged(t, file)
			}
			p.must(t, "resume", "--from", file)
			p.commands(t, 300)
		}
		file = filepath.Join(t.TempDir(), "state")
		p.asDocumented(t, codeBlock(t, "docs/suspend.md", "paracuda suspend --to"), file)
		p.commands(t, 300)
		p.must(t, "suspend", "--to", file)
		p.asDocumented(t, codeBlock(t, "docs/suspend.md", "paracuda resume --from"), file)
		p.must(t, "resume", "--from", file)
		p.commands(t, 300)
	})
}

// figures are what differs of what commands print.
var figures = regexp.MustCompile(`[\d.]+(ms|s)?`)

// asDocumented executes the commands of a code block, and compares what they print with the lines
// that stand below each.
func (p *policyRig) asDocumented(t *testing.T, block, file string) {
	t.Helper()
	own := strings.NewReplacer("/var/tmp/training.state", file,
		"/run/paracuda/training/control.sock", p.socket)
	lines := strings.Split(strings.TrimSpace(own.Replace(block)), "\n")
	for i := 0; i < len(lines); i += 2 {
		args := strings.Fields(lines[i])
		if len(args) < 2 || args[0] != "paracuda" || i+1 == len(lines) {
			t.Fatalf("%q is no command with what it prints", lines[i:])
		}
		out := p.must(t, args[1], args[2:len(args)-1]...)
		if figures.ReplaceAllString(strings.TrimSpace(out), "N") !=
			figures.ReplaceAllString(lines[i+1], "N") {
			t.Errorf("%s printed %q, and the page has %q", lines[i], out, lines[i+1])
		}
	}
}

// damaged has a copy of a file refused in which a bit is another.
func (p *policyRig) damaged(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 0x10
	other := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(other, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, time.Minute, root, paracuda, "resume", "--from", other, p.socket)
	if r.exit == 0 || !strings.Contains(r.stderr, "damaged") {
		t.Fatalf("exit code %d:%s", r.exit, tail(r.stderr))
	}
}

// TestInAFileThroughDeviceProcesses suspends a VM to a file, and has other device processes take
// its place: the VM stays suspended, and goes on from the file in the last one. Where one is killed
// in the middle of a change, the VM is in either state, and can be brought to the other.
func TestInAFileThroughDeviceProcesses(t *testing.T) {
	boots(t)
	r := startKeptOf(t, frontEnds[0], filepath.Join(programs, "keeps"), "0")
	file, n := "", 0
	inFile := func() bool {
		r.state(t)
		a := r.ask(t)
		return a != nil && a.State.Saved
	}
	to := func() {
		file, n = filepath.Join(t.TempDir(), strconv.Itoa(n)), n+1
	}
	to()
	r.must(t, "suspend", "--to", file)
	for range 2 {
		r.kill()
		if !inFile() {
			t.Fatal("another device process doesn't know of the file")
		}
	}
	if c := command(t, time.Minute, root, paracuda, "device", "--replace", "--control",
		r.socket); c.exit != 0 {
		t.Fatalf("replace: exit code %d:%s", c.exit, tail(c.stderr))
	}
	r.must(t, "resume", "--from", file)
	r.goesOn(t, "from the file")
	seen := map[string]int{}
	for range keptRounds(t, 8) {
		words, was := []string{"resume", "--from", file}, inFile()
		if !was {
			to()
			words = []string{"suspend", "--to", file}
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
		default: // the file was not kept, or its programs have begun again
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
