// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/paracuda/paracuda/gpubackend/mover"
	"github.com/paracuda/paracuda/gpubackend/moves"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// randomRuns are runs of the guest's memory that don't overlap, of lengths up to most, in random
// order.
func randomRuns(r *rand.Rand, guest, most uint64) (runs []wire.Run, total uint64) {
	for at := r.Uint64N(100); ; {
		n := 1 + r.Uint64N(most)
		if at+n > guest {
			break
		}
		runs = append(runs, wire.Run{Address: guestBase + at, Bytes: n})
		total += n
		at += n + r.Uint64N(100)
	}
	r.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
	return runs, total
}

// moverCorrect compares both directions with copies made here, for runs of all alignments and
// lengths.
func (c *checker) moverCorrect() (string, error) {
	const n = 32 << 20
	s, err := c.newSession(n)
	if err != nil {
		return "", err
	}
	defer s.close()
	r := rand.New(rand.NewPCG(1, 2))
	for _, most := range []uint64{40, 5000, 70000, 3 << 20} {
		if err := c.roundTrip(s, r, most); err != nil {
			return "", fmt.Errorf("runs up to %d bytes: %w", most, err)
		}
	}
	err = s.move(&moves.Move{ID: 9, ToDevice: true,
		Runs: []wire.Run{{Address: guestBase + n - 8, Bytes: 16}}})
	if !errors.Is(err, mover.ErrRange) {
		return "", fmt.Errorf("run past the guest's memory: error %v", err)
	}
	return "runs of 1 B to 3 MiB", nil
}

// roundTrip copies runs to the device and back over cleared memory. It compares after each copy,
// the bytes between runs included.
func (c *checker) roundTrip(s *session, r *rand.Rand, most uint64) error {
	guest := uint64(len(s.guest))
	copy(s.guest, pattern(len(s.guest), most))
	runs, total := randomRuns(r, guest/4, most)
	offset := r.Uint64N(guest - total)
	if err := s.move(&moves.Move{ID: 1, Offset: offset, ToDevice: true, Runs: runs}); err != nil {
		return fmt.Errorf("to the device: %w", err)
	}
	device := make([]byte, total)
	if err := must("copy out", c.device.CopyOut(device, s.address+offset)); err != nil {
		return err
	}
	var expected []byte
	for _, run := range runs {
		at := run.Address - guestBase
		expected = append(expected, s.guest[at:at+run.Bytes]...)
	}
	if !bytes.Equal(device, expected) {
		return errors.New("the device has wrong bytes")
	}
	before := bytes.Clone(s.guest)
	for _, run := range runs {
		clear(s.guest[run.Address-guestBase:][:run.Bytes])
	}
	if err := s.move(&moves.Move{ID: 2, Offset: offset, Runs: runs}); err != nil {
		return fmt.Errorf("from the device: %w", err)
	}
	if !bytes.Equal(s.guest, before) {
		return errors.New("the guest's memory has wrong bytes")
	}
	return nil
}

// moverRates measures copies of the sizes that programs use.
func (c *checker) moverRates() (string, error) {
	n := c.config.Bytes
	s, err := c.newSession(n)
	if err != nil {
		return "", err
	}
	defer s.close()
	notes := ""
	for _, k := range []struct {
		name     string
		run, odd uint64
	}{
		{"4 KiB", 4 << 10, 0}, {"4 KiB at odd addresses", 4 << 10, 1}, {"64 KiB", 64 << 10, 0},
		{"256 KiB", 256 << 10, 0},
		{"1 MiB", 1 << 20, 0}, {"2 MiB", 2 << 20, 0}, {"one run", n, 0},
	} {
		runs := make([]wire.Run, 0, n/k.run)
		for i := range n / k.run {
			runs = append(runs,
				wire.Run{Address: guestBase + i*k.run + k.odd, Bytes: k.run - k.odd})
		}
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(runs),
			func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		in, err := s.timed(runs, true)
		if err != nil {
			return "", err
		}
		out, err := s.timed(runs, false)
		if err != nil {
			return "", err
		}
		notes += fmt.Sprintf("; %s in %s out %s", k.name, rate(n, in), rate(n, out))
	}
	small := []wire.Run{{Address: guestBase, Bytes: 4096}}
	const times = 200
	start := time.Now()
	for range times {
		if err := s.move(&moves.Move{ToDevice: true, Runs: small}); err != nil {
			return "", err
		}
	}
	return "4 KiB " + each(time.Since(start), times) + notes, nil
}

// timed is the time of the second of two copies: the first registers memory.
func (s *session) timed(runs []wire.Run, toDevice bool) (took time.Duration, err error) {
	for range 2 {
		start := time.Now()
		if err := s.move(&moves.Move{ToDevice: toDevice, Runs: runs}); err != nil {
			return 0, err
		}
		took = time.Since(start)
	}
	return took, nil
}
