// SPDX-License-Identifier: Apache-2.0

// Package away prepares a VM's driver for the device to be away: it will be unplugged, with its
// programs' state in a file, and will be back, here or where the VM is then. A flag of the settings
// tells the driver. From then on no program begins to use the GPU; the driver answers with a key,
// by which the VM will be recognised, and learns for how long programs wait.
//
// # Who owns what
//
// An Away owns the key, and has a lock, under which it calls nobody. Under another lock it tells
// the driver one thing after the other, so that what the driver hears last is true. After Prepare,
// package saving writes the programs to a file, with the key. Package infile lets the VM go on when
// a driver with that key is back.
//
// # Who may lie
//
// The guest. It chooses its own key; another VM's it would have to guess.
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
	// Tell tells the driver whether the device is going to be away.
	Tell func(goes bool)
	// Stays says why the device can't be away, as far as is known.
	Stays func() error
	// Answer is how long the driver may take to answer.
	Answer time.Duration
}

// Away is a VM whose device may go away.
type Away struct {
	config Config

	telling sync.Mutex // held while the driver is told

	mu       sync.Mutex
	goes     bool          // the driver was told so; guarded by mu, as is what follows
	patience time.Duration // for which programs are to wait
	key      string        // that the driver has answered; "": it hasn't
	heard    chan struct{} // closed when it has, or can't any more
}

// New returns the Away of a VM whose device stays.
func New(c Config) *Away { return &Away{config: c} }

// KeyBytes is how long a key is.
const KeyBytes = 16

var (
	errStays  = errors.New("meanwhile the VM was resumed: try again")
	errGoes   = errors.New("the driver was told so already: resume the VM first")
	errAnswer = errors.New("the guest's driver doesn't answer: does the VM have a guest package " +
		"of this version, and is its device plugged in?")
)

// Prepare tells the driver that the device is going to be away, and for how long programs are to
// wait for it, and awaits the driver's answer. After an error the device stays.
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

// tell tells the driver what is true now.
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

// Goes is told that the previous process has told the driver.
func (a *Away) Goes() {
	a.mu.Lock()
	a.goes = true
	a.mu.Unlock()
	a.tell()
}

// Heard takes the driver's answer, its key. It returns how many seconds programs wait; false: the
// driver wasn't asked.
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

// Key is the key by which the VM will be recognised; "": there is none.
func (a *Away) Key() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.key
}

// Known is a key in the form that files have.
func Known(key [KeyBytes]byte) string { return hex.EncodeToString(key[:]) }
