// SPDX-License-Identifier: Apache-2.0

// Package away has a VM's driver be ready for the device to be away: it will be unplugged, with
// what the programs have in a file, and be back, here or where the VM is then. The driver is told
// by a flag of the settings. From then on no program begins to use the GPU; the driver answers with
// a key, by which the VM is known again, and learns for how long programs wait.
//
// # Who owns what
//
// An Away owns the key, and has a lock, under which it calls nobody. Another one has the driver be
// told one thing after the other, so that what it hears last is what holds. Whoever prepares the VM
// for it (Prepare) then has its programs written to a file, with the key (package saving). Package
// infile has the VM go on when a driver with that key is back.
//
// # Who may lie
//
// The guest. What it gives as a key is its own; another VM's it would have to guess.
package away

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
)

// Config is what an Away needs of the VM.
type Config struct {
	// Tell has the driver told whether the device is going to be away.
	Tell func(goes bool)
	// Stays says why it can't, as far as that is known.
	Stays func() error
	// Answer is how long the driver may take to answer.
	Answer time.Duration
}

// Away is a VM whose device may be going to be away.
type Away struct {
	config Config

	telling sync.Mutex // held while the driver is told

	mu       sync.Mutex
	goes     bool          // the driver was told; guarded by mu, as is what follows
	patience time.Duration // for which programs are to wait
	key      string        // that the driver has answered; "": it hasn't
	heard    chan struct{} // closed when it has, or can't any more
}

// New is for a VM whose device stays.
func New(c Config) *Away { return &Away{config: c} }

// KeyBytes is how long a key is.
const KeyBytes = 16

var (
	errStays  = errors.New("meanwhile the VM was resumed: try again")
	errGoes   = errors.New("the driver was told so already: resume the VM first")
	errAnswer = errors.New("the guest's driver doesn't answer: does the VM have a guest package " +
		"of this version, and is its device plugged in?")
)

// Prepare tells the driver that the device is going to be away, for whose return programs are to
// wait for so long, and waits for the driver's answer. After an error the device stays.
func (a *Away) Prepare(patience time.Duration) error {
	if err := a.config.Stays(); err != nil {
		return fmt.Errorf("the device can't be away: %w", err)
	}
	a.mu.Lock()
	if a.goes {
		a.mu.Unlock()
		return errGoes
	}
	heard := make(chan struct{})
	a.goes, a.patience, a.key, a.heard = true, patience, "", heard
	a.mu.Unlock()
	a.tell()
	timer := time.NewTimer(a.config.Answer)
	defer timer.Stop()
	select {
	case <-heard:
		if a.Key() == "" {
			return errStays
		}
		return nil
	case <-timer.C:
		a.Stay()
		return errAnswer
	}
}

// tell has the driver told what holds.
func (a *Away) tell() {
	a.telling.Lock()
	defer a.telling.Unlock()
	a.mu.Lock()
	goes := a.goes
	a.mu.Unlock()
	a.config.Tell(goes)
}

// Stay says that the device stays after all, or is back.
func (a *Away) Stay() {
	a.mu.Lock()
	goes := a.goes
	if a.heard != nil && a.key == "" {
		close(a.heard)
	}
	a.goes, a.key, a.heard = false, "", nil
	a.mu.Unlock()
	if goes {
		a.tell()
	}
}

// Goes says that the driver was told by the process before this one.
func (a *Away) Goes() {
	a.mu.Lock()
	a.goes = true
	a.mu.Unlock()
	a.tell()
}

// Heard is the driver's answer: its key. It is told for how many seconds its programs wait; false:
// it wasn't asked.
func (a *Away) Heard(key [KeyBytes]byte) (seconds uint32, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.heard == nil || a.key != "" || key == [KeyBytes]byte{} {
		return 0, false
	}
	a.key = Known(key)
	close(a.heard)
	s := a.patience.Seconds()
	return uint32(min(max(s, 1), math.MaxUint32)), true
}

// Key is by what the VM is known again; "": it isn't.
func (a *Away) Key() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.key
}

// Known is a key as it is in a file.
func Known(key [KeyBytes]byte) string { return hex.EncodeToString(key[:]) }
