// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

// Bounds of a fuzzer's inputs, for each of which the engine waits 10 seconds, and how many of them
// a device process gets: each ring that is new takes descriptors of this process, and memory of the
// guest, until that ends.
const (
	inputBytes   = 4096
	inputSteps   = 40
	inputsAGuest = 50
)

// input makes choices by its bytes, which it takes one after the other. Behind its end all is zero.
type input struct{ rest []byte }

// number takes so many bytes.
func (i *input) number(bytes int) uint64 {
	var b [8]byte
	n := copy(b[:bytes], i.rest)
	i.rest = i.rest[n:]
	return binary.LittleEndian.Uint64(b[:])
}

func (i *input) Uint64() uint64    { return i.number(8) }
func (i *input) UintN(n uint) uint { return uint(i.Uint64N(uint64(n))) }
func (i *input) IntN(n int) int    { return int(i.Uint64N(uint64(n))) }

// Uint64N takes no more bytes than the number may need.
func (i *input) Uint64N(n uint64) uint64 {
	switch {
	case n <= 1<<8:
		return i.number(1) % n
	case n <= 1<<16:
		return i.number(2) % n
	default:
		return i.number(8) % n
	}
}

// lasting is a test to all that lasts longer than one input: what that keeps it for ends with the
// target.
type lasting struct {
	testing.TB // of the input that is tried now
	ends       []func()
}

func (l *lasting) Cleanup(end func()) { l.ends = append(l.ends, end) }

func (l *lasting) TempDir() string {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// end ends all.
func (l *lasting) end() {
	for i := len(l.ends) - 1; i >= 0; i-- {
		l.ends[i]()
	}
	l.ends = nil
}

// fuzzed is a guest that tries inputs.
type fuzzed struct {
	lasting
	*rig
	tried int
}

// try has the guest do what an input says, and expects of the device what TestRandomGuest does.
func (f *fuzzed) try(t *testing.T, bytes []byte) {
	t.Helper()
	f.TB = t
	if f.rig == nil || f.tried == inputsAGuest {
		f.end()
		f.tried = 0
		f.rig = newGuestBy(&f.lasting, func(device *exec.Cmd) {
			device.Args = append(device.Args, "--set", "starts=0")
		}).opened(&f.lasting)
	}
	f.tried++
	if err := f.reset(); err != nil { // both channels begin anew, so that inputs are alike
		t.Fatalf("reset: %v", err)
	}
	in := &input{rest: bytes}
	r := &random{choices: in, g: f.guest, c: f.channels[victim]}
	steps := 0
	more := func() bool { steps++; return steps <= inputSteps && len(in.rest) > 0 }
	v, err := f.run(r.attack(more), byte(f.tried))
	if v != pass {
		t.Errorf("input %d of this device process: %s: %v", f.tried, v, err)
	}
	f.said(t)
	if t.Failed() { // others begin anew
		f.end()
		f.rig = nil
	}
}

// FuzzGuest has a guest do to the device process and its worker together what inputs say: bytes in
// rings and arena, requests of its kernel, commands, stops of its queues. Neither process may crash
// by a bug, and after each input both channels serve an honest program.
func FuzzGuest(f *testing.F) {
	r := rand.NewChaCha8([32]byte{})
	for kind := range byte(18) { // each step first
		some := make([]byte, 8<<(kind%6))
		_, _ = r.Read(some)
		some[0] = kind
		f.Add(some)
	}
	var guest fuzzed
	f.Cleanup(guest.end)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if len(bytes) <= inputBytes {
			guest.try(t, bytes)
		}
	})
}
