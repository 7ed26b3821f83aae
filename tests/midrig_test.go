// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// midRig is a VM that runs programs one after another, and is suspended and resumed meanwhile.
type midRig struct {
	*testing.T
	vm      frontEnd
	rand    *rand.Rand
	dir     string // for the files to which the VM is suspended
	control string

	run    *exec.Cmd
	jobs   io.WriteCloser
	frames chan frame
	errors *strings.Builder
	ended  chan struct{}
}

// frame is what the runner says about a program.
type frame struct {
	id string
	outcome
}

// newMidRig boots a VM with these GPUs. The caller has to end it, as several tests use it in turn.
func newMidRig(t *testing.T, vm frontEnd, seed uint64, gpus string) *midRig {
	t.Helper()
	dir := t.TempDir()
	m := &midRig{T: t, vm: vm, rand: rand.New(rand.NewPCG(seed, 0)), dir: dir,
		control: filepath.Join(dir, "control"), frames: make(chan frame, 16),
		errors: &strings.Builder{}, ended: make(chan struct{})}
	m.run = exec.Command(paracuda, "run", "--vm", vm.name, "--gpu", gpus, "--control", m.control,
		"--set", "stop-grace=1s", "--", runner, "/dev/stdin")
	m.run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	m.run.Stderr, m.run.WaitDelay, m.run.Dir = m.errors, 10*time.Second, root
	out, in := io.Pipe()
	m.run.Stdout = in
	var err error
	if m.jobs, err = m.run.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := m.run.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = m.run.Wait()
		_ = in.Close()
		close(m.ended)
	}()
	go m.read(out)
	m.through(wellFormed(t), nil) // when this has run the VM has booted
	return m
}

// of hands the VM on to another test.
func (m *midRig) of(t *testing.T) *midRig {
	m.T = t
	return m
}

// read passes on what the runner says.
func (m *midRig) read(out io.Reader) {
	defer close(m.frames)
	for frames := (frameReader{bufio.NewReader(out)}); ; {
		id, o, err := frames.next()
		if err != nil {
			return
		}
		m.frames <- frame{id, o}
	}
}

// end ends the VM.
func (m *midRig) end() {
	_ = m.jobs.Close()
	go func() { // drop the rest of the output
		for range m.frames {
		}
	}()
	_ = m.run.Process.Signal(syscall.SIGTERM)
	if !awaits(m.ended, time.Minute) {
		_ = syscall.Kill(-m.run.Process.Pid, syscall.SIGKILL)
		<-m.ended
		m.Error("the VM did not end")
	}
	if m.Failed() {
		m.Logf("the VM's errors:%s", tail(m.errors.String()))
	}
}

// moments says when to do something while a program runs, and what.
type moments struct {
	next func() <-chan time.Time // nil: never
	at   func()
}

// through runs a program, and does something at moments while it runs. nil: nothing.
func (m *midRig) through(p program, when *moments) outcome {
	m.Helper()
	fmt.Fprintf(m.jobs, "%s %.0f %s\n", p.id(), m.vm.limit.Seconds(),
		strings.Join(append([]string{filepath.Join(programs, p.file)}, p.args...), " "))
	late := patienceOf(m.vm.boot + m.vm.limit + time.Minute)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for next := (<-chan time.Time)(nil); ; {
		select {
		case f, is := <-m.frames:
			switch {
			case !is:
				m.Fatalf("%s: the VM has ended:%s", p.id(), tail(m.errors.String()))
			case !f.lost:
				return f.outcome
			case when != nil:
				next = when.next()
			}
		case <-next:
			when.at()
			next = when.next()
		case <-look.C:
			if late.over() {
				m.Fatalf("%s doesn't end:%s", p.id(), tail(m.errors.String()))
			}
		}
	}
}

// perRun is how often a VM is suspended at most during one run of a program.
const perRun = 8

// disturbed runs a program while the VM is suspended and resumed at random moments, in the host's
// memory and to files by turns. took is how long the program takes undisturbed. In half of the runs
// the first moment comes soon after the program begins to use the GPU: many use it only for a
// moment.
func (m *midRig) disturbed(p program, took time.Duration, was *met) outcome {
	m.Helper()
	n, turn, awaits := 0, m.rand.IntN(2), m.rand.IntN(2) == 0
	next := func() <-chan time.Time {
		switch {
		case n == perRun:
			return nil
		case n == 0 && awaits:
			m.see(p, took)
			return time.After(m.within(took / 16))
		}
		return time.After(m.within(took / time.Duration(n+1)))
	}
	return m.through(p, &moments{next, func() {
		if n++; (n+turn)%2 == 0 {
			m.light(p, was)
		} else {
			m.full(p, was)
		}
	}})
}

// within is a random time of at most that.
func (m *midRig) within(most time.Duration) time.Duration {
	return time.Duration(m.rand.Int64N(int64(most) + 1))
}

// see waits until a program uses the GPU, but not for longer than that.
func (m *midRig) see(p program, most time.Duration) {
	m.Helper()
	for begin := time.Now(); time.Since(begin) < most; time.Sleep(time.Millisecond) {
		if p.isIn(m.programs()) {
			return
		}
	}
}

// programs are the names of the programs that use the GPU.
func (m *midRig) programs() (names []string) {
	m.Helper()
	for _, p := range m.stats().Programs {
		names = append(names, p.Name)
	}
	return names
}

func (m *midRig) stats() *admin.Answer {
	m.Helper()
	a, err := admin.Ask(m.control, admin.Request{Stats: true})
	if err != nil {
		m.Fatal(err)
	}
	return a
}

// isIn says whether the program is among these names of processes.
func (p program) isIn(names []string) bool {
	const longest = 15 // Linux cuts longer names of processes
	return slices.Contains(names, p.file[:min(len(p.file), longest)])
}

func untold(suspend.Progress) {}

// ask makes a request. It must succeed, or fail with an error that has one of these texts.
func (m *midRig) ask(r admin.Request, may ...string) (why string) {
	m.Helper()
	_, err := admin.AskAtLength(m.control, r, untold)
	return m.allowed(r, err, may)
}

// allowed returns why a request has failed, and fails the test unless that is one of these reasons.
func (m *midRig) allowed(r admin.Request, err error, may []string) (why string) {
	m.Helper()
	if err == nil {
		return ""
	}
	if !slices.ContainsFunc(may, func(s string) bool { return strings.Contains(err.Error(), s) }) {
		m.Fatalf("%+v: %v", r, err)
	}
	return numbers.ReplaceAllString(err.Error(), "")
}

// numbers matches the pids in messages.
var numbers = regexp.MustCompile(` \(pid \d+\)`)

// light suspends the VM to the host's memory, and resumes it.
func (m *midRig) light(p program, was *met) {
	m.Helper()
	if why := m.ask(admin.Request{Suspend: true}, "busy: "); why != "" {
		was.against[why]++
		return
	}
	if state := m.stats().State.State; state != suspend.Suspended {
		m.Fatalf("the VM is %s, want %s", state, suspend.Suspended)
	}
	if p.isIn(m.programs()) {
		was.light++
	}
	time.Sleep(m.within(20 * time.Millisecond))
	m.ask(admin.Request{Resume: true})
}

// full suspends the VM to a file, and resumes it from there. A program may end before it is saved.
func (m *midRig) full(p program, was *met) {
	m.Helper()
	path := filepath.Join(m.dir, "state")
	to, err := record.Create(path)
	if err != nil {
		m.Fatal(err)
	}
	defer os.Remove(path)
	defer to.Close()
	r := admin.Request{Suspend: true, File: true}
	_, err = admin.AskWithFile(m.control, r, to.File, to.Keep, untold)
	const (
		ended = "all programs ended meanwhile"
		held  = "they must close them first" // what they share is of a process that has just ended
	)
	switch why := m.allowed(r, err, []string{"can't be saved now", ended, held}); {
	case strings.Contains(why, ended):
		return
	case why != "":
		was.against[why]++
		return
	}
	from, err := record.Open(path)
	if err != nil {
		m.Fatal(err)
	}
	defer from.Close()
	saved, err := savedvm.Open(from)
	if err != nil {
		m.Fatal(err)
	}
	var names []string
	for _, x := range saved.Programs {
		names = append(names, x.Name)
	}
	if p.isIn(names) {
		was.full++
	}
	time.Sleep(m.within(20 * time.Millisecond))
	r = admin.Request{Resume: true, File: true}
	_, err = admin.AskWithFile(m.control, r, from, nil, untold)
	if why := m.allowed(r, err, []string{"wasn't suspended to a file"}); why != "" {
		m.ask(admin.Request{Resume: true}) // no program was in the file
	}
}
