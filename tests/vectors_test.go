// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vhostuser/vhostusertest"
)

// The guest in tests/vectors.
const (
	vectorQueues = 5
	vectorRounds = 20 // how often the vector of each queue is raised

	vectorPatience = 3 * time.Minute // KVM may emulate the firmware, on a busy machine
)

// TestVectorsUnderKVM raises the interrupts of a back end's queues, in each release of QEMU, behind
// the recommended carrier. The guest has a vector for each queue. Under KVM the interrupts don't
// pass through QEMU, which has given the back end's descriptors to the kernel (irqfd). Under TCG
// QEMU reads the descriptors itself.
func TestVectorsUnderKVM(t *testing.T) {
	needsReleases(t)
	guest := filepath.Join(logDir(t), "guest")
	r := command(t, time.Minute, root, "cc", "-m32", "-ffreestanding", "-O1", "-mgeneral-regs-only",
		"-fno-pic", "-no-pie", "-fno-stack-protector", "-nostdlib", "-static", "-Wall", "-Wextra",
		"-Werror", "-Wl,--build-id=none,-Ttext-segment=0x200000,-e,_start", "-o", guest,
		"tests/vectors/guest.c")
	if r.exit != 0 {
		t.Fatalf("build the guest: %s", r.stderr)
	}
	for _, version := range qemus {
		for _, accel := range []string{"tcg", "kvm"} {
			t.Run(version+"-"+accel, func(t *testing.T) {
				t.Parallel()
				progress(t)
				raiseVectors(t, version, accel, guest)
			})
		}
	}
}

func raiseVectors(t *testing.T, version, accel, guest string) {
	if accel == "kvm" {
		needsKVM(t, version, guest)
	}
	device := vhostusertest.NewDevice(t, vectorQueues)
	socket, _ := serveOnce(t, t.Context(), device)
	reads := countCallReads(t, qemuProgram(t, version), filepath.Base(socket))
	line := filepath.Join(t.TempDir(), "line")
	startQEMU(t, reads.program, "-nodefaults", "-display", "none", "-no-reboot",
		"-accel", accel, "-machine", "q35,memory-backend=m", "-m", "64M",
		"-object", "memory-backend-memfd,id=m,size=64M,share=on", "-kernel", guest,
		"-chardev", "socket,id=line,server=on,wait=on,path="+line, "-serial", "chardev:line",
		"-chardev", "socket,id=gpu,path="+socket,
		"-device", fmt.Sprintf("vhost-user-fs-pci,chardev=gpu,tag=paracuda,num-request-queues=%d",
			vectorQueues-1))
	g := connectLine(t, line)
	g.says(t, "started")
	awaitInterrupts(t, device)
	begin := g.ask(t)
	before := reads.of(t)
	for round := 1; round <= vectorRounds; round++ {
		for queue := range vectorQueues {
			q, running := device.Running(queue)
			if !running || q.Call == nil {
				t.Fatalf("queue %d doesn't run, or has no interrupt: %+v", queue, q)
			}
			if err := q.Call.Signal(); err != nil {
				t.Fatal(err)
			}
		}
		g.await(t, begin, round)
	}
	after := reads.of(t)
	t.Logf("read by QEMU before: %v, then: %v", before, after)
	for queue := range vectorQueues {
		name := fmt.Sprint(queue)
		want := vectorRounds
		if accel == "kvm" {
			want = 0
		}
		if n := after[name] - before[name]; n != want {
			t.Errorf("QEMU has read the descriptor of queue %d %d times, want %d", queue, n, want)
		}
	}
}

// awaitInterrupts waits until QEMU has given each queue the descriptor of the guest's own vector.
// QEMU does so once the queue has started, and the guest doesn't wait for the back end's part.
func awaitInterrupts(t *testing.T, device *vhostusertest.Device) {
	t.Helper()
	given := map[string]bool{}
	until(t, time.Minute, "the interrupts of all queues", func() bool {
		for _, call := range device.Calls() {
			given[call] = true
		}
		for queue := range vectorQueues {
			if !given[fmt.Sprintf("call %d true", queue)] {
				return false
			}
		}
		return true
	})
}

// needsKVM skips the test unless the guest runs under KVM, without its device: it says that there
// is none, which takes no more than a simple program.
func needsKVM(t *testing.T, version, guest string) {
	t.Helper()
	ctx, cancel := withPatience(t.Context(), vectorPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemuProgram(t, version), "-nodefaults", "-display", "none",
		"-accel", "kvm", "-machine", "q35", "-m", "64M", "-kernel", guest, "-serial", "stdio")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	cancel()
	_ = cmd.Wait()
	if line != "there is no virtio device\n" {
		skip(t, "a guest under KVM says %q, %v: %s", line, err, stderr.String())
	}
}

// serialLine is the guest's serial line. The guest answers each byte with how often each of its
// vectors was raised.
type serialLine struct {
	conn net.Conn
	text *bufio.Reader
}

func connectLine(t *testing.T, socket string) *serialLine {
	t.Helper()
	var err error
	for w := patienceOf(time.Minute); !w.over(); {
		var conn net.Conn
		if conn, err = net.Dial("unix", socket); err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			return &serialLine{conn, bufio.NewReader(conn)}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(err)
	return nil
}

// says returns the guest's next line, which must begin with these words.
func (l *serialLine) says(t *testing.T, words string) string {
	t.Helper()
	_ = l.conn.SetDeadline(time.Now().Add(vectorPatience))
	text, err := l.text.ReadString('\n')
	if err != nil || !strings.HasPrefix(text, words) {
		t.Fatalf("the guest says %q, %v, want %q", text, err, words)
	}
	return text
}

// ask asks how often each vector was raised.
func (l *serialLine) ask(t *testing.T) (raised [vectorQueues]int) {
	t.Helper()
	if _, err := l.conn.Write([]byte{'?'}); err != nil {
		t.Fatal(err)
	}
	text := l.says(t, "")
	words := strings.Fields(text)
	if len(words) != vectorQueues {
		t.Fatalf("the guest says %q, want %d numbers", text, vectorQueues)
	}
	for i, word := range words {
		n, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			t.Fatalf("the guest says %q, want numbers: %v", text, err)
		}
		raised[i] = int(n)
	}
	return raised
}

// await waits until each vector was raised that many times more than at the beginning.
func (l *serialLine) await(t *testing.T, begin [vectorQueues]int, times int) {
	t.Helper()
	want := begin
	for i := range want {
		want[i] += times
	}
	for w := patienceOf(vectorPatience); ; time.Sleep(10 * time.Millisecond) {
		raised := l.ask(t)
		if raised == want {
			return
		}
		if w.over() {
			t.Fatalf("the vectors were raised %v times, want %v", raised, want)
		}
	}
}
