// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/admin"
	"github.com/paracuda/paracuda/gpubackend/record"
	"github.com/paracuda/paracuda/gpubackend/suspend"
	"github.com/paracuda/paracuda/vm"
)

// TestDeviceIsAway takes the device out of a VM whose programs compute all the time, and plugs
// another one in: into the same QEMU, and into one to which the VM was migrated meanwhile. The
// programs wait and find what they had. None fails, and /dev/paracuda never disappears.
func TestDeviceIsAway(t *testing.T) {
	needsReleases(t)
	rounds, image := migrations(t, 2, 5), keepingRoot(t)
	inReleases(t, migrators, "10.0", func(t *testing.T, version string) {
		m := newMoving(t, version, image)
		for i := range rounds {
			file := m.detach(fmt.Sprint("file-", i), "1h")
			if i%2 == 0 {
				m.attachFrom(file)
			} else { // the device process reads the file when it starts
				m.options = []string{"--from", file}
				m.attach(m.serve())
				m.options = nil
			}
			m.compute()

			file = m.detach(fmt.Sprint("moved-", i), "1h")
			m.withoutDevice()
			m.attachFrom(file)
			m.compute()
		}
		m.stays()
	})
}

// documented is a command from docs/suspend.md, with this VM's sockets and this file.
func (m *moving) documented(first, file, device string) []string {
	m.t.Helper()
	own := strings.NewReplacer("paracuda ", paracuda+" ", "/run/vm.qmp", m.g.socket,
		"training.state", file, "/run/gpu.sock", device, "/run/gpu.control", m.control)
	return []string{"sh", "-ec",
		strings.TrimSpace(own.Replace(codeBlock(m.t, "docs/suspend.md", first))) + ` "$@"`, "sh"}
}

// attachFrom plugs in another device with the programs' state from a file, as documented.
func (m *moving) attachFrom(file string, options ...string) {
	m.t.Helper()
	m.plug(append(m.documented("paracuda attach", file, m.serve()), options...)...)
}

// TestGenericDeviceIsAway does the same behind the generic carrier, with which QEMU can't migrate a
// VM.
func TestGenericDeviceIsAway(t *testing.T) {
	needsQEMU(t)
	m := &moving{t: t, program: qemuProgram(t, "11"), image: keepingRoot(t), dir: t.TempDir()}
	m.g = startMachine(t, m.program, "", "generic-console", m.image)
	m.g.answers()
	generic := []string{"--carrier", "generic", "--wait", "2m"}
	m.attach(m.serve(), generic...)
	m.g.expect("guest: device", 1)
	m.g.tell("keep")
	m.compute()
	answer := m.g.qmpWith("migrate", "uri", "exec:cat >/dev/null")
	if !strings.Contains(answer, "blocked by non-migratable device") {
		t.Fatalf("QEMU didn't refuse to migrate the VM with its device: %s", answer)
	}
	file := m.detach("file", "1h")
	m.withoutDevice()
	m.attachFrom(file, generic...)
	m.compute()
	m.stays()
}

// TestDeviceStaysAway: the programs wait no longer than --patience allows, and then fail. A device
// that was plugged in meanwhile isn't theirs: new programs use it.
func TestDeviceStaysAway(t *testing.T) {
	needsQEMU(t)
	m := newMoving(t, migrators[0], keepingRoot(t))
	m.detach("file", "20s")
	m.attach(m.serve())
	m.g.expect("has not come back: its programs lose it", 1)
	m.g.expect("has ended", len(keepers))
	m.g.usesGPU()
}

// detach takes the device out of the VM, and writes its programs' state to a new file.
func (m *moving) detach(name, patience string) (file string) {
	m.t.Helper()
	file = filepath.Join(m.dir, name)
	for tries := 0; ; tries++ {
		r := command(m.t, 2*time.Minute, root, append(m.documented("paracuda detach", file, ""),
			"--patience", patience)...)
		if r.exit == 0 {
			break
		}
		if !isPassing(r.stderr) || tries == 50 {
			log, _ := os.ReadFile(m.device.log)
			m.t.Fatalf("detach: exit code %d:%s%s", r.exit, tail(r.stderr), tail(string(log)))
		}
	}
	m.device.kill()
	return file
}

// attach plugs in another device.
func (m *moving) attach(socket string, options ...string) {
	m.t.Helper()
	m.plug(append([]string{paracuda, "attach", "--qmp", m.g.socket, "--device", socket},
		options...)...)
}

// plug runs a command that plugs a device in.
func (m *moving) plug(words ...string) {
	m.t.Helper()
	if r := command(m.t, 2*time.Minute, root, words...); r.exit != 0 {
		log, _ := os.ReadFile(m.device.log)
		console, _ := os.ReadFile(m.g.console)
		m.t.Fatalf("attach: exit code %d:%s%s%s", r.exit, tail(r.stderr), tail(string(log)),
			tail(string(console)))
	}
}

// withoutDevice moves the VM to another QEMU while it has no device.
func (m *moving) withoutDevice() {
	m.t.Helper()
	m.stays()
	old := m.g
	line := "unix:" + filepath.Join(m.dir, fmt.Sprint("line", m.places))
	m.g = startMachine(m.t, m.program, "", fmt.Sprintf("moved-%d-console", m.places), m.image,
		"-incoming", line)
	m.g.answers()
	if !m.send(old, m.device, line) {
		m.t.Fatal("a VM without a device couldn't be migrated")
	}
	old.kill()
	<-old.gone
	m.g.runs()
}

// stays checks that /dev/paracuda never disappeared from the VM.
func (m *moving) stays() {
	m.t.Helper()
	if console, _ := os.ReadFile(m.g.console); strings.Contains(string(console), "no device") {
		m.t.Errorf("the VM was without a device:\n%s", tail(string(console)))
	}
}

// unbinding is a guest's script. When it is told that the device is to be away while programs use
// it, two of which hold descriptors of their memory, new programs have to wait. It unbinds the
// driver from the device, and binds it again. Meanwhile it kills one of each kind.
const unbinding = `
"$0" 0 & stays=$!
"$0" 0 & goes=$!
"$2" 0 & shares=$!
"$2" 0 & closes=$!
read -r away || exit 7
timeout -s KILL 2 "$1" && exit 8
cd /sys/bus/virtio/drivers/paracuda && device=$(echo virtio*) && echo "$device" >unbind || exit 1
[ -e /dev/paracuda ] || exit 2
kill -KILL $goes $closes
timeout -s KILL 2 "$1" && exit 3
echo "$device" >bind && echo bound || exit 4
"$1" >/dev/null || exit 5
read -r seen || exit 9
kill $stays $shares || exit 6
dmesg`

// TestDriverIsUnbound unbinds and binds the driver's device when it is to be away, under an
// ordinary kernel, and at night also under one that looks for faults.
func TestDriverIsUnbound(t *testing.T) {
	t.Parallel()
	kernels := []string{"7.2", "7.2-debug"}
	for _, kernel := range kernels[:times(1, 2)] {
		t.Run(kernel, func(t *testing.T) {
			boots(t)
			if _, err := vm.FindAssets().Release(vm.UML, kernel); err != nil {
				skip(t, "no such kernel here: %v", err)
			}
			isUnbound(t, kernel)
		})
	}
}

func isUnbound(t *testing.T, kernel string) {
	dir := t.TempDir()
	control := filepath.Join(dir, "control")
	g := startSaying(t, paracuda, "run", "--vm", "uml", "--kernel", kernel, "--gpu", "soft",
		"--mem", "1G", "--set", "channels=8", "--control", control, "--", "sh", "-c", unbinding,
		filepath.Join(programs, "keeps"), filepath.Join(programs, "vectoradd"),
		filepath.Join(programs, "keepsshared"))
	use := func(want int) func() bool {
		return func() bool {
			a, err := admin.Ask(control, admin.Request{Stats: true})
			if err != nil {
				return false
			}
			n := 0
			for _, p := range a.Programs {
				if p.Stats["commands"] > 500 {
					n++
				}
			}
			return n == want
		}
	}
	const all = 6 // keepsshared is two processes
	g.await(use(all))
	path := filepath.Join(dir, "state")
	quiet := func(suspend.Progress) {}
	for try := 0; ; try++ {
		f, err := record.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = admin.AskWithFile(control, admin.Request{Suspend: true, File: true,
			Away: time.Minute}, f.File, f.Keep, quiet)
		f.Close()
		if err == nil {
			break
		}
		if try == 20 || !strings.Contains(err.Error(), "begins just now") {
			t.Fatal(err)
		}
	}
	f, err := record.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := admin.AskWithFile(control, admin.Request{Expect: true, File: true}, f, nil,
		quiet); err != nil {
		t.Fatal(err)
	}
	g.tell("away")
	g.says("bound")
	m, err := admin.AskWithFile(control, admin.Request{Resume: true, File: true}, f, nil, quiet)
	if err != nil || m.Moved.Bytes == 0 {
		t.Fatalf("resume: %+v, %v, want bytes that moved", m, err)
	}
	g.await(use(all / 2))
	g.tell("seen")
	kernelSays := g.ends()
	for _, line := range []string{"is away", "is back"} {
		if !strings.Contains(kernelSays, line) {
			t.Errorf("the kernel doesn't say %q:%s", line, tail(kernelSays))
		}
	}
	_, kernelSays, _ = strings.Cut(kernelSays, moduleLine)
	if found := kernelFault.FindAllString(kernelSays, 5); found != nil {
		t.Errorf("the kernel has found faults:\n%s\n%s", strings.Join(found, "\n"),
			tail(kernelSays))
	}
}

// saying is a command that says lines.
type saying struct {
	t     *testing.T
	cmd   *exec.Cmd
	words io.Writer // to it
	lines *bufio.Reader
	log   strings.Builder
}

func startSaying(t *testing.T, words ...string) *saying {
	t.Helper()
	g := &saying{t: t, cmd: exec.Command(words[0], words[1:]...)}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	g.cmd.Stderr = &g.log
	out, err := g.cmd.StdoutPipe()
	if err == nil {
		g.words, err = g.cmd.StdinPipe()
	}
	if err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	g.lines = bufio.NewReader(out)
	t.Cleanup(func() {
		if g.cmd.ProcessState == nil {
			_ = g.cmd.Process.Signal(syscall.SIGTERM)
			_ = g.cmd.Wait()
		}
	})
	return g
}

func (g *saying) await(come func() bool) {
	g.t.Helper()
	for w := patienceOf(2 * time.Minute); !come(); time.Sleep(50 * time.Millisecond) {
		if w.over() {
			g.t.Fatalf("waited in vain, with %q running", g.cmd.Args)
		}
	}
}

// tell gives it a line.
func (g *saying) tell(word string) {
	g.t.Helper()
	if _, err := fmt.Fprintln(g.words, word); err != nil {
		g.t.Fatal(err)
	}
}

// says waits for a line.
func (g *saying) says(want string) {
	g.t.Helper()
	for {
		line, err := g.lines.ReadString('\n')
		if err != nil {
			err = errors.Join(err, g.cmd.Wait())
			g.t.Fatalf("it ended before it said %q: %v%s", want, err, tail(g.log.String()))
		}
		if strings.TrimSpace(line) == want {
			return
		}
	}
}

// ends waits until it exits with 0, and returns the rest of what it said.
func (g *saying) ends() string {
	g.t.Helper()
	rest, err := io.ReadAll(g.lines)
	if err = errors.Join(err, g.cmd.Wait()); err != nil {
		g.t.Fatalf("%v%s%s", err, tail(string(rest)), tail(g.log.String()))
	}
	return string(rest)
}
