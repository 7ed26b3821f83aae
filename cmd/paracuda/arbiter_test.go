// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/internal/patience"
)

// arbiterProcess is a `paracuda arbiter` that a test has started.
type arbiterProcess struct {
	t    *testing.T
	path string
	cmd  *exec.Cmd
	log  *lines
	done chan error
}

// lines are what a process has written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// within waits for something that happens soon.
func within(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for wait := patience.Of(time.Minute); !happened(); time.Sleep(5 * time.Millisecond) {
		if wait.Over() {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// endsWithTest ends a process with the test's, however that ends.
func endsWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// startArbiter starts one and waits until it answers.
func startArbiter(t *testing.T, path string, options ...string) *arbiterProcess {
	t.Helper()
	p := &arbiterProcess{t: t, path: path, log: &lines{}, done: make(chan error, 1)}
	p.cmd = exec.Command(os.Args[0], append([]string{"arbiter", "--socket", path}, options...)...)
	p.cmd.Stderr, p.cmd.SysProcAttr = p.log, endsWithTest()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	within(t, "the arbiter answers", func() bool {
		_, err := client.List(path)
		return err == nil
	})
	return p
}

func (p *arbiterProcess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// says waits for a line of the log.
func (p *arbiterProcess) says(text string) {
	p.t.Helper()
	within(p.t, text, func() bool { return strings.Contains(p.log.String(), text) })
}

func TestArbiterProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "paracuda", "arbiter.sock")
	p := startArbiter(t, path)
	out, err := exec.Command(os.Args[0], "arbiter", "--socket", path).CombinedOutput()
	want := "an arbiter runs at " + path + " already: end it"
	if err == nil || !strings.Contains(string(out), want) || bytes.Count(out, []byte("\n")) != 1 {
		t.Errorf("a second one: %v, %q", err, out)
	}
	p.signal(syscall.SIGKILL)
	<-p.done
	p = startArbiter(t, path)
	p.signal(syscall.SIGTERM)
	if err := <-p.done; err != nil {
		t.Errorf("SIGTERM: %v, %s", err, p.log)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("its socket is left")
	}
}

func TestArbiterReadsItsConfigurationAgain(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "arbiter.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[vm.a]\nweight = 7\n")
	p := startArbiter(t, filepath.Join(dir, "socket"), "--config", config)
	newMember(t, p.path, "a")
	weight := func() string {
		vms, err := client.List(p.path)
		if err != nil || len(vms) != 1 {
			return ""
		}
		return vms[0].Policy["weight"]
	}
	within(t, "the weight of the file", func() bool { return weight() == "7" })
	write("[vm.a]\n\nweight = 70000\n")
	p.signal(syscall.SIGHUP)
	p.says("line 3: at vm.a.weight: weight=70000")
	if w := weight(); w != "7" {
		t.Errorf("after a mistake the weight is %s", w)
	}
	write("[vm.a]\nweight = 8\n")
	p.signal(syscall.SIGHUP)
	p.says("was read again")
	within(t, "another weight", func() bool { return weight() == "8" })
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.says("no such file")
	if w := weight(); w != "8" {
		t.Errorf("without a file the weight is %s", w)
	}
}

func TestArbiterMistakes(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "arbiter.toml")
	if err := os.WriteFile(config, []byte("[vm.a]\nweigth = 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	start := "arbiter --socket " + socket
	for line, want := range map[string]string{
		start + " --config " + config:        config + ", line 2: at vm.a.weigth",
		start + " --config " + dir + "/none": "no such file",
		"arbiter --socket " + config:         "exists and is no socket",
		start + " --group no-such-group":     "the host has no group of that name",
		start + " --metrics nowhere:x":       "want a free address like localhost:9836",
		start + " extra":                     `arbiter: unexpected argument "extra"`,
		start + " --log-level loud":          "--log-level loud",
	} {
		err := dispatch(strings.Fields(line))
		if err == nil || !oneLineWith(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// oneLineWith says whether a message has one line, with what is wanted in it.
func oneLineWith(message, want string) bool {
	return strings.Contains(message, want) && !strings.Contains(message, "\n")
}

// TestArbiterIsConfined: it has no rights, and a filter, and still reads a configuration that has
// taken the place of another, tells of VMs and removes its socket.
func TestArbiterIsConfined(t *testing.T) {
	dir := t.TempDir()
	config, path := filepath.Join(dir, "c", "arbiter.toml"), filepath.Join(dir, "s", "arbiter")
	for _, sub := range []string{"c", "s"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(config, []byte("[default]\nweight = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startArbiter(t, path, "--config", config, "--metrics", "localhost:0")
	within(t, "it serves", func() bool { return strings.Contains(p.log.String(), "waits for VMs") })
	p.has("NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000",
		"CapPrm:\t0000000000000000")
	for _, v := range procFile(t, p.cmd.Process.Pid, "environ", "\x00") {
		if strings.HasPrefix(v, mainVariable) {
			t.Errorf("it has the variable %s", v)
		}
	}
	if err := os.WriteFile(config+".new", []byte("[default]\nweight = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(config+".new", config); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.says("the configuration was read again")
	p.signal(syscall.SIGTERM)
	if err := <-p.done; err != nil {
		t.Errorf("it ended with %v\n%s", err, p.log)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("its socket: %v", err)
	}
	p = startArbiter(t, path, "--sandbox", "off")
	p.says("--sandbox=off")
	p.has("Seccomp:\t0")
}

// TestArbiterIsAskedByOtherUsers, as it is by services: its filter lets it answer.
func TestArbiterIsAskedByOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user: make test runs this as root")
	}
	dir, err := os.MkdirTemp("", "arbiter")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	// The arbiter ends with the thread that starts it, which asUser's is not to be.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := startArbiter(t, filepath.Join(dir, "arbiter.sock"))
	for file, mode := range map[string]os.FileMode{dir: 0o755, p.path: 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		err := asUser(65534, func() error { _, err := client.List(p.path); return err })
		if err != nil {
			t.Fatalf("%v\n%s", err, p.log)
		}
	}
	select {
	case err := <-p.done:
		t.Errorf("it has ended: %v\n%s", err, p.log)
	default:
	}
}

// asUser calls f on a thread that is another user's.
func asUser(user uintptr, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		const same = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, user, same); errno != 0 {
			done <- errno
			return
		}
		done <- f()
	}()
	return <-done
}

// has looks for lines in what /proc says of it.
func (p *arbiterProcess) has(lines ...string) {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range lines {
		if !bytes.Contains(status, []byte("\n"+line+"\n")) {
			p.t.Errorf("no %q in\n%s", line, status)
		}
	}
}
