// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/moves"
)

// staging is device memory that chunks of copies pass through.
type staging struct {
	address uint64 // on the device
	number  uint32 // its name at the mover
	opened  bool
}

// open gets the staging memory, if there is none. If that fails the next copy tries again: until
// then the guest may have freed memory.
func (t *Copies) open() gpubackend.Result {
	if t.staging.opened {
		return gpubackend.Success
	}
	size := t.StagingBytes() / StagedChunks
	address, number, result := t.openStaging(size * StagedChunks)
	if result != gpubackend.Success {
		return result
	}
	t.staging = staging{address, number, true}
	for i := range StagedChunks {
		t.chunks.all[i].offset, t.chunks.all[i].size = uint64(i)*size, size
	}
	return gpubackend.Success
}

// openStaging gets the staging memory, for which pools may have to give up memory, and lends it to
// the mover.
func (t *Copies) openStaging(
	bytes uint64,
) (address uint64, staging uint32, result gpubackend.Result) {
	address, fd, result := t.Driver.Staging(bytes)
	if result == gpubackend.OutOfMemory && t.MakeRoom() {
		address, fd, result = t.Driver.Staging(bytes)
	}
	if result != gpubackend.Success {
		t.Log.WithError(result.Err()).Warn("get staging memory")
		return 0, 0, result
	}
	defer unix.Close(fd)
	staging, err := t.reach.mover.Attach(fd, 0, bytes)
	if err == nil {
		return address, staging, gpubackend.Success
	}
	t.Driver.Unstage(address)
	if errors.Is(err, moves.ErrRefused) {
		t.Log.WithError(err).Warn("lend staging memory to the mover")
		return 0, 0, lostOr(gpubackend.OutOfMemory, err)
	}
	t.lose(err)
	return 0, 0, t.reach.broken
}

// unstage gives the staging memory back, which no chunk has.
func (t *Copies) unstage() {
	if !t.staging.opened {
		return
	}
	if t.reach.gone {
		t.Log.Debug("staging memory stays lent to a mover that is gone")
	} else if err := t.reach.mover.Detach(t.staging.number); err != nil {
		t.Log.WithError(err).Warn("take staging memory back from the mover")
	}
	t.Driver.Unstage(t.staging.address)
	t.staging = staging{}
}
