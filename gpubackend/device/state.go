// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// What a VM takes along when it is saved or migrated. Programs that use the GPU can't be taken
// along: a VM that has some isn't saved. Of one that has none, what is left is what its driver was
// told when it greeted the device, and is going to rely on.

// state is that, as it is saved.
type state struct {
	Magic      [8]byte
	Format     uint32
	Version    uint32 // of the protocol that the driver speaks
	Generation uint32
	Channels   uint32
	ArenaBytes uint32
	Sequence   uint32 // of the settings
	Greeted    uint32 // there is a driver
	Sum        uint32 // CRC-32 of all before it
}

var stateMagic = [8]byte{'p', 'a', 'r', 'a', 'c', 'u', 'd', 'a'}

const (
	stateFormat = 1
	stateBytes  = 40
)

var (
	errBusyVM = errors.New("the VM can't be saved or migrated now")
	errState  = errors.New("the saved VM's state")
)

// SaveState implements vhostuser.StateSaver.
func (d *Device) SaveState(w io.Writer) error {
	d.mu.Lock()
	why, s := d.unsaved(), d.state()
	d.mu.Unlock()
	if why != nil {
		return fmt.Errorf("%w: %w", errBusyVM, why)
	}
	if _, err := w.Write(s.encode()); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
}

// unsaved says what keeps the VM from being saved.
func (d *Device) unsaved() error {
	programs, err := d.channels.programs()
	if err != nil {
		return err
	}
	handles, _ := d.exports.Held()
	switch {
	case len(programs) > 0:
		return fmt.Errorf("programs in it use the GPU: %s: end them first",
			strings.Join(programs, ", "))
	case handles > 0:
		return errors.New("programs in it hold descriptors of GPU memory: end them first")
	case d.late != nil && d.late.open > 0:
		return errors.New("a request of its driver's isn't answered yet")
	}
	return nil
}

func (d *Device) state() *state {
	s := &state{
		Magic: stateMagic, Format: stateFormat, Version: d.config.Version,
		Generation: d.config.Generation, Channels: d.space.Channels,
		ArenaBytes: d.space.ArenaBytes, Sequence: d.space.Sequence,
	}
	if d.greeted {
		s.Greeted = 1
	}
	return s
}

func (s *state) encode() []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, s) // of a fixed size: it can't fail
	binary.LittleEndian.PutUint32(b[stateBytes-4:], crc32.ChecksumIEEE(b[:stateBytes-4]))
	return b
}

// LoadState implements vhostuser.StateSaver.
func (d *Device) LoadState(r io.Reader) error {
	s, err := readState(r)
	if err != nil {
		return err
	}
	d.mu.Lock()
	err = d.accepts(s)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	d.forget()
	d.mu.Lock()
	defer d.mu.Unlock()
	// Another than the driver has, so that it asks for the settings of this device.
	d.space.Sequence = s.Sequence + 1
	d.config.Generation, d.greeted = s.Generation, s.Greeted != 0
	d.tell()
	return nil
}

// forget ends all that the device has of the guest that it served until now: QEMU's loadvm puts
// another in its place, or an earlier state of it.
func (d *Device) forget() {
	d.Reset()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late != nil {
		d.late.drop()
		d.late = nil
	}
	for _, c := range d.channels {
		c.queue.Forget()
	}
}

// readState reads a state, and nothing behind it.
func readState(r io.Reader) (*state, error) {
	var b [stateBytes + 1]byte
	n, err := io.ReadFull(r, b[:])
	switch {
	case err == nil:
		return nil, fmt.Errorf("%w is longer than %d bytes", errState, stateBytes)
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: %w", errState, err)
	case n != stateBytes:
		return nil, fmt.Errorf("%w has %d bytes, not %d", errState, n, stateBytes)
	}
	s := &state{}
	_, _ = binary.Decode(b[:stateBytes], binary.LittleEndian, s) // it is long enough
	switch {
	case s.Magic != stateMagic:
		return nil, fmt.Errorf("%w is not one of Paracuda's", errState)
	case s.Format != stateFormat:
		return nil, fmt.Errorf("%w has format %d, this version reads %d",
			errState, s.Format, stateFormat)
	case s.Sum != crc32.ChecksumIEEE(b[:stateBytes-4]):
		return nil, fmt.Errorf("%w is damaged: its checksum is wrong", errState)
	}
	return s, nil
}

// accepts says whether the device can go on where the saved one stopped.
func (d *Device) accepts(s *state) error {
	if d.control != nil {
		return fmt.Errorf("%w: this device serves a VM already", errState)
	}
	if s.Greeted == 0 {
		return nil // whatever comes greets this device
	}
	for _, x := range []struct {
		what      string
		saved, is uint32
		fix       string
	}{
		{"protocol version", s.Version, d.config.Version, "use the same version of paracuda"},
		{"channels", s.Channels, d.space.Channels, "start the device with the same channels"},
		{"arena size", s.ArenaBytes, d.space.ArenaBytes, "start the device with the same arena"},
	} {
		if x.saved != x.is {
			return fmt.Errorf("%w has %s %d, this device %d: %s",
				errState, x.what, x.saved, x.is, x.fix)
		}
	}
	return nil
}
