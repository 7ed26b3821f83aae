// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/arbiter"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/device/admin"
)

// serve calls answer for each connection to a socket.
func serve(t *testing.T, network, path string, answer func(*net.UnixConn)) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			answer(c)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
}

// asNobody calls f without root's right to all files.
func asNobody(f func()) {
	if os.Getuid() == 0 { // for this thread only
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_ = unix.Setfsuid(65534)
		defer unix.Setfsuid(0)
	}
	f()
}

// ofVersion answers as an arbiter of another version.
func ofVersion(n int) func(*net.UnixConn) {
	return func(raw *net.UnixConn) {
		c := link.New(raw)
		defer c.Close()
		var r link.Request
		if _, err := c.Receive(&r, 0); err == nil {
			_ = c.Send(&link.Answer{Version: n})
		}
	}
}

// TestArbiter asks arbiters of all kinds.
func TestArbiter(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	serve(t, link.Network, path("later"), ofVersion(link.Version+1))
	serve(t, link.Network, path("same"), ofVersion(link.Version))
	serve(t, link.Network, path("mute"), func(c *net.UnixConn) { c.Close() })
	serve(t, "unix", path("stream"), func(c *net.UnixConn) { c.Close() })
	want(t, checkArbiter(path("none")), Problem, "none answers", "paracuda arbiter --socket")
	want(t, checkArbiter(path("same")), OK, "0 VMs", "")
	want(t, checkArbiter(path("later")), Problem, "it speaks version 2, this process version 1",
		restartArbiter)
	want(t, checkArbiter(path("mute")), Problem, "", restartArbiter)
	want(t, checkArbiter(path("stream")), Problem, "another program's", restartArbiter)
	if err := os.Chmod(path("same"), 0); err != nil {
		t.Fatal(err)
	}
	asNobody(func() {
		want(t, checkArbiter(path("same")), Problem, "no permission", "usermod -aG kvm")
	})
}

// TestArbiterHere asks a real one.
func TestArbiterHere(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	a, err := arbiter.New(arbiter.Config{Log: logrus.NewEntry(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	path := filepath.Join(t.TempDir(), "arbiter")
	l, err := link.Listen(path, "")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = a.Serve(l)
	}()
	want(t, checkArbiter(path), OK, "with 0 VMs", "")
	l.Close()
	<-done
}

func TestArbiterConfig(t *testing.T) {
	for text, w := range map[string]Finding{
		"":                          {Level: OK, Found: "can be read"},
		"[default]\nweight = 100\n": {Level: OK, Found: "can be read"},
		"[default]\nweight = 0\n": {Level: Problem, Found: "arbiter.toml, line 2",
			Fix: "editor /etc/paracuda/arbiter.toml"},
		"[default\n": {Level: Problem, Found: "arbiter.toml, line ", Fix: "editor"},
	} {
		h := healthy(put(t, files{arbiterFile: text}))
		want(t, h.arbiterConfig(t.Context()), w.Level, w.Found, w.Fix)
	}
	want(t, healthy(t.TempDir()).arbiterConfig(t.Context()), OK, "none", "")
}

func TestVMConfigs(t *testing.T) {
	h := healthy(put(t, files{"/etc/paracuda/vms/a.conf": "", "/etc/paracuda/vms/b\x1b.conf": "",
		"/etc/paracuda/vms/c.conf.old": ""}))
	all := h.vmConfigs(func(file string) error {
		if filepath.Base(file) == "a.conf" {
			return nil
		}
		return errors.New("line 1:\nno such option \x1b[2J")
	})
	if len(all) != 2 {
		t.Fatalf("%+v", all)
	}
	want(t, all[0], OK, "a: /etc/paracuda/vms/a.conf can be read", "")
	want(t, all[1], Problem, "line 1: no such option ?[2J", "editor /etc/paracuda/vms/b?.conf")
	all = healthy(t.TempDir()).vmConfigs(nil)
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	want(t, all[0], OK, "no VM", "")
}

// TestVMSockets asks device processes that answer, have ended, may not be asked, or talk nonsense.
func TestVMSockets(t *testing.T) {
	h := healthy(t.TempDir())
	if err := os.Chmod(filepath.Dir(h.Root), 0o755); err != nil { // it is for its owner alone
		t.Fatal(err)
	}
	control := func(vm string) string { return h.path("/run/paracuda/" + vm + "/control.sock") }
	answer := func(c *net.UnixConn) {
		defer c.Close()
		var r admin.Request
		if json.NewDecoder(c).Decode(&r) == nil {
			_ = json.NewEncoder(c).Encode(admin.Answer{GPU: "soft\x1b"})
		}
	}
	troubled := func(c *net.UnixConn) {
		defer c.Close()
		var r admin.Request
		if json.NewDecoder(c).Decode(&r) == nil {
			_ = json.NewEncoder(c).Encode(admin.Answer{GPU: "soft", Trouble: []admin.Trouble{
				{Found: "fewer queues\x1b", Fix: "num-request-queues=16"},
				{Found: "no driver", Fix: "install it"}}})
		}
	}
	serve(t, "unix", control("e-trouble"), troubled)
	serve(t, "unix", control("a-lives"), answer)
	serve(t, "unix", control("c-private"), answer)
	serve(t, "unix", control("d-odd"), func(c *net.UnixConn) {
		_, _ = c.Write([]byte("hello\n"))
		c.Close()
	})
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix",
		Name: mustDir(t, control("b-ended"))})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if err := os.Chmod(control("c-private"), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a-lives", "d-odd", "b-ended", "e-trouble"} {
		if err := os.Chmod(control(name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(func() {
		all := h.vmSockets()
		if len(all) != 6 {
			t.Fatalf("%+v", all)
		}
		want(t, all[0], OK, "VM a-lives has GPU soft? and 0 programs", "")
		want(t, all[1], Problem, "b-ended: its device process has ended",
			"systemctl restart paracuda@b-ended.socket")
		want(t, all[2], Warning, "c-private: this user may not", "usermod -aG paracuda")
		want(t, all[3], Problem, "VM d-odd: ", "journalctl -u paracuda@d-odd")
		want(t, all[4], Problem, "VM e-trouble: fewer queues?", "num-request-queues=16")
		want(t, all[5], Problem, "VM e-trouble: no driver", "install it")
	})
	if all := healthy(t.TempDir()).vmSockets(); len(all) != 1 || all[0].Level != OK {
		t.Errorf("%+v", all)
	}
}

// TestListeners looks at sockets that nobody connects to.
func TestListeners(t *testing.T) {
	h := healthy(put(t, files{"/run/paracuda/c-file.sock": ""}))
	path := func(name string) string { return h.path("/run/paracuda/" + name + ".sock") }
	connected := func(c *net.UnixConn) { t.Error("connected"); c.Close() }
	for name, mode := range map[string]os.FileMode{"arbiter": 0, "a-open": 0o660, "b-root": 0o755} {
		serve(t, "unix", path(name), connected)
		if err := os.Chmod(path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	all := h.listeners(t.Context())
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	want(t, all[0], OK, "/run/paracuda/a-open.sock has mode 0660", "")
	want(t, all[1], Problem, "mode 0755", "chmod 0660 /run/paracuda/b-root.sock")
	want(t, all[2], Problem, "is no socket", "rm /run/paracuda/c-file.sock")
	for _, root := range []string{t.TempDir(), put(t, files{"/run/paracuda/arbiter.sock": ""})} {
		if all = healthy(root).listeners(t.Context()); len(all) != 1 || all[0].Level != OK {
			t.Errorf("%+v", all)
		}
	}
}

// mustDir makes a file's directory.
func mustDir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProcesses(t *testing.T) {
	h := healthy(put(t, files{"/proc/1/exe": "->/sbin/init", "/proc/2/exe": "->/usr/bin/paracuda",
		"/proc/3/exe": "->/usr/bin/other (deleted)"}))
	want(t, h.processes(t.Context())[0], OK, "none", "")
	if err := os.MkdirAll(h.path("/proc/4"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/usr/bin/paracuda (deleted)", h.path("/proc/4/exe")); err != nil {
		t.Fatal(err)
	}
	want(t, h.processes(t.Context())[0], Warning, "1 processes", restartArbiter)
}

// TestRun: all checks are carried out in their order, a good host has no problem, and each finding
// has its check's name.
func TestRun(t *testing.T) {
	root := put(t, join(aGPU, aDriver, aLibrary, theNodes,
		files{"/bin/qemu": fakeQEMU("9.0.0", "vhost-user-fs-pci")}))
	socket := filepath.Join(t.TempDir(), "arbiter")
	serve(t, link.Network, socket, ofVersion(link.Version))
	broken := errors.New("wrong numbers")
	for _, err := range []error{nil, broken} {
		s := &Subject{Version: "1", QEMU: filepath.Join(root, "bin/qemu"), Arbiter: socket,
			Compute: func(context.Context) (string, error) { return "a GPU", err }}
		var told []Finding
		tell := func(f Finding) { told = append(told, f) }
		all := Run(t.Context(), Checks(healthy(root), s), tell)
		if len(all) < 20 || len(told) != len(all) || all[len(all)-1].Check != "computation" {
			t.Errorf("%+v", all)
		}
		problems := 0
		for _, f := range all {
			if f.Check == "" {
				t.Errorf("no name: %+v", f)
			}
			if f.Level != OK {
				problems++
			}
		}
		if (err != nil) != (problems == 1) || Count(all, Problem) != problems {
			t.Errorf("%v: %+v", err, all)
		}
	}
}

func TestPrint(t *testing.T) {
	all := []Finding{{"a", OK, "fine", ""}, {"b", Warning, "so so", "do <b>"},
		{"c", Problem, "broken", "do c"}}
	var b strings.Builder
	for _, f := range all {
		Print(&b, f)
	}
	PrintSum(&b, all)
	PrintSum(&b, append(all[:1:1], all[2], all[2]))
	text := "ok       a: fine\nwarning  b: so so\n           fix: do <b>\nproblem  c: broken\n" +
		"           fix: do c\n1 problem, 1 warning\n2 problems, no warnings\n"
	if b.String() != text {
		t.Errorf("%q, want %q", b.String(), text)
	}
	b.Reset()
	if err := PrintJSON(&b, all); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Healthy  *bool
		Findings []Finding
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got.Healthy == nil ||
		*got.Healthy || len(got.Findings) != 3 || got.Findings[1] != all[1] ||
		!strings.Contains(b.String(), "<b>") {
		t.Errorf("%v, %s", err, b.String())
	}
}
