// SPDX-License-Identifier: Apache-2.0

package memfd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind is what a worker has a file for.
type Kind uint8

// The kinds. The first three are memory of a software GPU.
const (
	OfDevice Kind = iota // all memory of a GPU
	Created              // memory that programs make to map it, or to share it
	Staging              // by which copies go
	Event                // what processes that share an event have of it
	StandIn              // stands in for the guest's memory until that is there
	lastKind = StandIn
)

var kindNames = [...]string{"device", "memory", "staging", "event", "stand-in"}

// Form says which file a worker wants. Where a worker may not make files by itself, another process
// decides on the call that makes one, of which it sees only registers.
type Form struct {
	Kind  Kind
	GPU   uint8 // among the VM's; only memory of one has it
	Bytes uint64
}

// Name is the file's name. By those of memory of a GPU it is counted (soft/usage).
func (f Form) Name() string {
	if f.Kind > Staging {
		return "paracuda-" + kindNames[f.Kind]
	}
	return fmt.Sprintf("paracuda-%s-%d", kindNames[f.Kind], f.GPU)
}

const (
	pageSize = 4096
	most     = 1 << 46 // bytes: no host has more

	// makeFlags are what the call has.
	makeFlags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
)

// ErrForm says that no worker has such a file.
var ErrForm = errors.New("not a file that workers have")

// Check says why no worker has such a file.
func (f Form) Check() error {
	switch {
	case f.Kind > lastKind, f.Kind > Staging && f.GPU != 0, f.Bytes == 0, f.Bytes > most,
		f.Kind == Event && f.Bytes != pageSize:
		return fmt.Errorf("%w: kind %d, GPU %d, %d bytes", ErrForm, f.Kind, f.GPU, f.Bytes)
	}
	return nil
}

// Word is the form but for its bytes.
func (f Form) Word() uint64 { return uint64(f.Kind) | uint64(f.GPU)<<8 }

// FormOf is the form of a file, by Word and bytes, which anybody may have made up.
func FormOf(word, bytes uint64) (Form, error) {
	f := Form{Kind(word), uint8(word >> 8), bytes}
	if f.Word() != word {
		return Form{}, ErrForm
	}
	return f, f.Check()
}

// OfCall is the form that a worker asks for by the registers of memfd_create: name, flags, and two
// that the kernel ignores.
func OfCall(arguments [6]uint64) (Form, error) {
	if arguments[1] != makeFlags {
		return Form{}, ErrForm
	}
	return FormOf(arguments[3], arguments[2])
}
