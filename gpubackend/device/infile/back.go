// SPDX-License-Identifier: Apache-2.0

package infile

import (
	"errors"

	"github.com/paracuda/paracuda/gpubackend/device/saving"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// A VM whose device was away comes with its driver, which has kept its programs and made available
// again what their workers held. What the workers had is in a file, which the device process got at
// its start (Config.From), or later (Expect).

// errUnknown says that no VM can be recognised by a file.
var errUnknown = errors.New("no VM whose device was away can be known by this file: it was " +
	"suspended without paracuda detach")

// Expect makes a VM be recognised by a file when its driver says that it is back; it replaces a
// file that was expected before. The VM goes on when it is resumed.
func (v *VM) Expect(f *saving.File) error {
	if f.VM == "" {
		return errUnknown
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expected = f
	return nil
}

// awaited is the file of the VM with that key; nil: none. itself says that the VM goes on by
// itself.
func (v *VM) awaited(key string) (f *saving.File, itself bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.expected; f != nil && f.VM == key {
		return f, false
	}
	if f := v.config.From; f != nil && f.VM == key && !v.over.Load() {
		return f, true
	}
	return nil, false
}

// Back is told that a driver is back, with that key, and has made available again what its programs
// have in their queues. It returns the status for the driver.
func (v *VM) Back(key string) (status uint32) {
	f, itself := v.awaited(key)
	switch {
	case f == nil:
		return wire.StatusNoObject
	case v.config.Used() || v.Has():
		return wire.StatusBusy
	}
	v.config.Empty()
	here := v.here(f)
	if len(here.Programs) > 0 {
		if err := v.config.Suspension.TakeFile(); err != nil {
			v.config.Log.WithError(err).Error("the VM is back, and can't go on from its file")
			return wire.StatusBusy
		}
		v.config.Programs.TakeUp(here)
	}
	v.giveBack()
	v.mu.Lock()
	v.expected = nil
	v.mu.Unlock()
	if err := v.config.Describe(f.Descriptors); err != nil { // it was looked at when it was read
		v.config.Log.WithError(err).Error("descriptors of the GPU's memory are lost")
	}
	if itself && !v.over.Swap(true) && len(here.Programs) > 0 {
		v.goOn(f)
	}
	return wire.StatusOk
}

// here are the programs of a file that are still there: those with something in their queues.
func (v *VM) here(f *saving.File) *saving.InFile {
	here := &saving.InFile{Sum: f.Sum}
	for _, p := range f.Programs {
		if p.Channel < v.config.Channels.Len() && v.config.Channels.Offered(p.Channel) {
			p.Anew = true
			here.Programs = append(here.Programs, p)
		}
	}
	return here
}

// giveBack gives back what programs have in their queues that aren't in the file.
func (v *VM) giveBack() {
	for channel := range v.config.Channels.Len() {
		if !v.config.Programs.Has(channel) && v.config.Channels.Offered(channel) {
			v.config.Reclaim(channel)
		}
	}
}
