// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

const (
	// inputsALook is after how many inputs the driver is asked whether all is as before.
	inputsALook = 40
	// longestInput is INPUT_MOST of guestdriver/kernel/test/inputs.h, and driverActions the number
	// of actions of random.h.
	longestInput  = 4096
	driverActions = 17
)

// fuzzedDriver is a VM whose program asks the guest driver for what inputs say.
type fuzzedDriver struct {
	cmd    *exec.Cmd
	inputs io.WriteCloser
	said   *bufio.Reader
	stderr bytes.Buffer
	ended  chan struct{}
	age    time.Duration // of memory that is found if it is lost
	tried  int           // inputs since the last look
	lost   bool          // the VM has ended, or a check has failed
}

// bootFuzzed boots such a VM, with the kernel that looks for faults if there is one. The VM ends
// with this process.
func bootFuzzed(t testing.TB) *fuzzedDriver {
	t.Helper()
	d := &fuzzedDriver{ended: make(chan struct{})}
	args := []string{"run", "--vm", "uml", "--gpu", "soft", "--set", "channels=4", "--mem", "1G"}
	if _, err := vm.FindAssets().Release(vm.UML, debugKernel); err == nil {
		args = append(args, "--kernel", debugKernel)
		d.age = 6 * time.Second
	}
	d.cmd = exec.Command(paracuda, append(args, "--", driverTest(t), "inputs")...)
	d.cmd.Dir, d.cmd.Stderr = root, &d.stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	in, err := d.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.inputs, d.said = in, bufio.NewReader(out)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // what Pdeathsig goes by lives as long as the program
		err := d.cmd.Start()
		started <- err
		if err == nil {
			_, _ = d.cmd.Process.Wait()
		}
		close(d.ended)
	}()
	if err := <-started; err != nil {
		t.Fatalf("find the program under test: %v: run make", err)
	}
	d.until(t, "ready")
	return d
}

// until returns what the program prints before a line. A check that fails, or a fault that the
// guest's kernel finds, is an error.
func (d *fuzzedDriver) until(t testing.TB, last string) (said string) {
	t.Helper()
	slow := time.AfterFunc(10*time.Minute, func() { _ = d.cmd.Process.Kill() })
	defer slow.Stop()
	defer func() { d.lost = d.lost || t.Failed() }()
	for {
		line, err := d.said.ReadString('\n')
		if err != nil {
			<-d.ended
			t.Fatalf("the VM has ended: %v\n%s\n%s", err, tail(said), tail(d.stderr.String()))
		}
		if line == last+"\n" {
			break
		}
		said += line
	}
	if strings.Contains(said, "FAILED") || kernelFault.MatchString(said) {
		t.Errorf("a check has failed, or the kernel has found a fault:\n%s", said)
	}
	return said
}

// try has the driver asked for what an input says; one of no bytes looks what is left of others.
func (d *fuzzedDriver) try(t testing.TB, input []byte) (said string) {
	t.Helper()
	frame := binary.LittleEndian.AppendUint32(nil, uint32(len(input)))
	if _, err := d.inputs.Write(append(frame, input...)); err != nil {
		t.Fatalf("the VM takes no input: %v\n%s", err, tail(d.stderr.String()))
	}
	return d.until(t, "done")
}

// look looks whether the driver is as it was before the inputs.
func (d *fuzzedDriver) look(t testing.TB) {
	t.Helper()
	d.try(t, nil)
	if t.Failed() {
		t.Logf("one of the last %d inputs has done that", d.tried)
	}
	d.tried = 0
}

// end ends the VM.
func (d *fuzzedDriver) end() {
	_ = d.inputs.Close()
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		_ = d.cmd.Process.Kill()
	}
}

// driverSeeds are inputs to begin with: each action by itself, and requests of any kind.
func driverSeeds() (seeds [][]byte) {
	for action := range byte(driverActions) {
		seeds = append(seeds, append([]byte{2}, bytes.Repeat([]byte{action, 1}, 20)...))
	}
	r := rand.NewChaCha8([32]byte{})
	for how := range byte(8) {
		seed := make([]byte, 200)
		_, _ = r.Read(seed)
		seed[0] = how
		seeds = append(seeds, seed)
	}
	return seeds
}

// FuzzDriver has the kernel driver asked for what inputs say, by a process each, in a VM that has
// booted before: open, requests with raw numbers and arguments, mmap, munmap, close, fork, words in
// an arena. The guest's kernel may not die nor find faults, processes end, and channels, objects
// and memory come back.
func FuzzDriver(f *testing.F) {
	if !fuzzing() {
		const why = "make fuzz-short tries its inputs, in a VM of its own"
		fmt.Println("FuzzDriver skipped:", why)
		f.Skip(why)
	}
	for _, seed := range driverSeeds() {
		f.Add(seed)
	}
	var d *fuzzedDriver
	if flag.Lookup("test.fuzzworker").Value.String() == "true" { // not the process that coordinates
		d = bootFuzzed(f) // before there is an input: one has 10 seconds
		f.Cleanup(func() {
			if !d.lost {
				time.Sleep(d.age)
				d.look(f)
			}
			d.end()
		})
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if d.lost {
			t.Skip("the VM ended with an earlier input")
		}
		if len(input) == 0 || len(input) > longestInput {
			return
		}
		d.try(t, input)
		if d.tried++; d.tried == inputsALook {
			d.look(t)
		}
	})
}
