// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ownDeeds are what a test's child does that is in no role.
var ownDeeds = map[string]func() int{
	"keep nothing": keepNothing, "no files": giveFilesUp, "only files": giveMostFilesUp,
	"pass on": passOn, "say": say,
	"listen": listen, "dial": dial,
	"in a user namespace": inNamespace, "filter twice": filterTwice,
	"no user namespace": refusedNamespace,
	"ask":               ask, "ask beside another": askBesideAnother,
	"ask with few files": askWithFewFiles,
	"room asked":         roomAsked,
	"room of child":      roomOfChild,
}

// keepNothing gives all capabilities up, and looks whether a thread has some.
func keepNothing() int {
	if _, err := KeepOnly(); err != nil {
		fmt.Println(err)
		return 1
	}
	return show("CapEff", "CapPrm", "CapInh", "NoNewPrivs")
}

// passOn keeps one capability, and executes a program.
func passOn() int {
	if missing, err := PassOn(unix.CAP_SYS_PTRACE); missing != nil || err != nil {
		fmt.Println(missing, err)
		return 1
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), deedVariable+"=say")
	out, err := c.CombinedOutput()
	fmt.Printf("%s", out)
	if err != nil {
		fmt.Println(err)
	}
	return say()
}

// say prints what this process may do, and what it executes.
func say() int { return show("CapEff", "CapPrm", "CapInh", "CapBnd", "NoNewPrivs") }

// show prints these lines of what /proc has of each thread.
func show(names ...string) int {
	tasks, _ := filepath.Glob("/proc/self/task/*/status")
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			for _, name := range names {
				if strings.HasPrefix(line, name+":") {
					fmt.Print(line)
				}
			}
		}
	}
	return 0
}

// giveFilesUp opens what it may not.
func giveFilesUp() int {
	before, err := os.Open("/proc/self/status")
	if err == nil {
		err = OnlyFiles(Files{})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, path := range []string{"/etc/passwd", "/proc/self/status", "/dev/null", "/"} {
		if _, err := os.Open(path); !errors.Is(err, os.ErrPermission) {
			fmt.Println("open", path, err)
		}
	}
	if err := os.Mkdir(os.TempDir()+"/paracuda-test", 0o700); !errors.Is(err, os.ErrPermission) {
		fmt.Println("make a folder", err)
	}
	if _, err := before.Read(make([]byte, 8)); err != nil {
		fmt.Println("what was open", err)
	}
	if _, err := unix.MemfdCreate("x", 0); err != nil {
		fmt.Println("memory", err)
	}
	leave()
	return 0
}

// giveMostFilesUp keeps a folder to write in, one to read and a device, and tries these and others.
func giveMostFilesUp() int {
	dir, err := os.MkdirTemp("", "paracuda-only")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	read, write := filepath.Join(dir, "read"), filepath.Join(dir, "write")
	file := filepath.Join(read, "file")
	if err := errors.Join(os.Mkdir(read, 0o700), os.Mkdir(write, 0o700),
		os.WriteFile(file, []byte("x"), 0o600)); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := OnlyFiles(Files{
		ReadOnly: []string{read, "/proc/self/status", "/does/not/exist"},
		Devices:  []string{"/dev/null", "/dev/nothing-of-the-kind"}, Writable: []string{write},
	}); err != nil {
		fmt.Println(err)
		return 1
	}
	for _, try := range []struct {
		path string
		mode int
		may  bool
	}{
		{file, os.O_RDONLY, true},
		{file, os.O_RDWR, false},
		{filepath.Join(read, "new"), os.O_CREATE | os.O_WRONLY, false},
		{filepath.Join(write, "new"), os.O_CREATE | os.O_WRONLY, true},
		{"/proc/self/status", os.O_RDONLY, true},
		{"/proc/self/maps", os.O_RDONLY, false},
		{"/dev/null", os.O_RDWR, true},
		{"/dev/zero", os.O_RDONLY, false},
		{"/etc/passwd", os.O_RDONLY, false},
	} {
		f, err := os.OpenFile(try.path, try.mode, 0o600)
		if (err == nil) != try.may || err != nil && !errors.Is(err, os.ErrPermission) {
			fmt.Println(try.path, try.mode, err)
		}
		if err == nil {
			f.Close()
		}
	}
	if err := os.Remove(filepath.Join(write, "new")); err != nil {
		fmt.Println("remove", err)
	}
	if err := os.Remove(file); !errors.Is(err, os.ErrPermission) {
		fmt.Println("remove what may only be read", err)
	}
	leave()
	return 0
}

// run has a child do one of ownDeeds, started by start, and returns what it prints.
func run(t *testing.T, deed string, start func(*exec.Cmd) error) string {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), deedVariable+"="+deed)
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := start(c); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%s: %v, %s", deed, err, &out)
	}
	return out.String()
}

// TestKeepOnly: no thread has any capability, or can get one.
func TestKeepOnly(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(run(t, "keep nothing", (*exec.Cmd).Start)), "\n")
	if len(lines) < 4*4 {
		t.Errorf("fewer than four threads: %q", lines)
	}
	for _, line := range lines {
		_, value, _ := strings.Cut(line, ":\t")
		if value != none && line != "NoNewPrivs:\t1" {
			t.Error(line)
		}
	}
}

// TestPassOn: no thread has more than what is passed on, nor has a program that it executes, which
// has that.
func TestPassOn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has capabilities to pass on")
	}
	lines := strings.Split(strings.TrimSpace(run(t, "pass on", (*exec.Cmd).Start)), "\n")
	if len(lines) < 2*5 {
		t.Errorf("fewer than two processes: %q", lines)
	}
	for _, line := range lines {
		want := "0000000000080000"
		switch name, _, _ := strings.Cut(line, ":"); name {
		case "CapInh":
			want = none
		case "NoNewPrivs":
			want = "1"
		}
		if !strings.HasSuffix(line, ":\t"+want) {
			t.Errorf("%q, want %s", line, want)
		}
	}
}

// TestNoFiles: none can be opened.
func TestNoFiles(t *testing.T) {
	if abi, err := ll.LandlockGetABIVersion(); err != nil {
		t.Skipf("the kernel has no Landlock: %v, %v", abi, err)
	}
	if out := run(t, "no files", (*exec.Cmd).Start); out != "" {
		t.Error(out)
	}
}

// TestOnlyFiles: those that are named can be used, and only as they are named.
func TestOnlyFiles(t *testing.T) {
	if abi, err := ll.LandlockGetABIVersion(); err != nil {
		t.Skipf("the kernel has no Landlock: %v, %v", abi, err)
	}
	t.Setenv("TMPDIR", t.TempDir()) // the child can't remove what it has made there
	if out := run(t, "only files", (*exec.Cmd).Start); out != "" {
		t.Error(out)
	}
}

// abstract is the name of a socket that belongs to no file.
const abstract = "@paracuda-sandbox-test"

// listen takes a name and says so, until its input ends.
func listen() int {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: abstract + os.Getenv("NAME"), Net: "unix"})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer l.Close()
	return stay()
}

// dial says whether somebody has the name.
func dial() int {
	name := abstract + os.Getenv("NAME")
	_, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	fmt.Print(err == nil)
	return 0
}

// TestVMsAreApart: abstract sockets are there for the children of one Starter alone.
func TestVMsAreApart(t *testing.T) {
	if !MayBeApart() {
		t.Skip("CAP_SYS_ADMIN is missing: TestUserNamespaces has the same without")
	}
	t.Setenv("NAME", fmt.Sprint(os.Getpid()))
	var vms [2]*Starter
	for i := range vms {
		var err error
		if vms[i], _, err = NewStarter(Apart); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), deedVariable+"=listen")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := vms[0].Start(c); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = c.Wait() }()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("said %q", line)
	}
	for i, want := range []string{"true", "false"} {
		if got := run(t, "dial", vms[i].Start); got != want {
			t.Errorf("VM %d meets the socket of the first: %s", i, got)
		}
	}
	if got := run(t, "dial", (*exec.Cmd).Start); got != "false" {
		t.Errorf("the host meets the VM's socket: %s", got)
	}
}

// inNamespace is root in a user namespace: it makes children apart that have no rights, and looks
// into one that isn't dumpable.
func inNamespace() int {
	if !MayBeApart() || !MayLook() {
		fmt.Println("it has no rights in its own namespace")
	}
	s, missing, err := NewStarter(Apart)
	if missing != nil || err != nil {
		fmt.Println(missing, err)
		return 1
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), deedVariable+"=hide")
	in, _ := c.StdinPipe()
	out, _ := c.StdoutPipe()
	if err := s.Start(c); err != nil {
		fmt.Println(err)
		return 1
	}
	lines := bufio.NewReader(out)
	if line, _ := lines.ReadString('\n'); line != "ready\n" {
		fmt.Println("said", line)
	}
	of := func(name string) string { return fmt.Sprintf("/proc/%d/%s", c.Process.Pid, name) }
	if _, err := os.ReadDir(of("fd")); err != nil {
		fmt.Println("it can't look into its child:", err)
	}
	status, err := os.ReadFile(of("status"))
	if err != nil || !strings.Contains(string(status), "CapBnd:\t"+none) {
		fmt.Println("the child may have rights", err)
	}
	ours, _ := os.Readlink("/proc/self/ns/net")
	if theirs, err := os.Readlink(of("ns/net")); err != nil || ours == theirs {
		fmt.Println("the child's network is", theirs, err)
	}
	in.Close()
	_, _ = io.Copy(io.Discard, lines)
	_ = c.Wait()
	return 0
}

// TestUserNamespaces: an ordinary user's VM is apart by a user namespace.
func TestUserNamespaces(t *testing.T) {
	out := run(t, "in a user namespace", func(c *exec.Cmd) error {
		c.SysProcAttr = &syscall.SysProcAttr{}
		err := InUserNamespace(c.SysProcAttr)
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Skipf("the host allows no user namespaces: %v", err)
		}
		return nil
	})
	if out != "" {
		t.Error(out)
	}
}

// refusedNamespace is in a folder, from which the kernel lets nobody make user namespaces. It looks
// for descriptors that are left when some were refused.
func refusedNamespace() int {
	outside, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err := errors.Join(err, unix.Chdir(os.TempDir()), unix.Chroot(".")); err != nil {
		fmt.Println(err)
		return 1
	}
	// At its end it writes down what it has executed, if that is asked for: to a file outside.
	defer func() { _ = errors.Join(unix.Fchdir(outside), unix.Chroot(".")) }()
	open := func() (n int) {
		for fd := uintptr(0); fd < 100; fd++ {
			if _, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err == nil {
				n++
			}
		}
		return n
	}
	before := open()
	for range 3 {
		attr := syscall.SysProcAttr{}
		err := InUserNamespace(&attr)
		if !errors.Is(err, unix.EPERM) || attr.Cloneflags != 0 {
			fmt.Println("there is a user namespace in a folder:", err)
		}
	}
	if now := open(); now != before {
		fmt.Printf("%d descriptors are open, %d before\n", now, before)
	}
	return 0
}

// TestNoUserNamespaces: where they are refused the process has lost nothing.
func TestNoUserNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can put itself into a folder")
	}
	if out := run(t, "no user namespace", (*exec.Cmd).Start); out != "" {
		t.Error(out)
	}
}
