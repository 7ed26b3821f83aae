// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"fmt"
	"math"
)

// A worker that keeps to the rules counts what its guest process makes it take of the host's
// memory, and ends by itself when it has far more (worker/watchdog). One that was taken over need
// not do either. So the kernel is asked what each has.

// HostBounds bound how much of the host's memory workers may have.
type HostBounds struct {
	Process uint64 // one
	VM      uint64 // all together
	Files   uint64 // that all files have together that were made for workers, mapped or not
	// Beside is what each has in addition, for itself and the GPU's driver.
	Beside uint64
}

// Holding is what is known of a worker's memory besides.
type Holding struct {
	Moved  uint64 // device memory that the VM's owner has had moved out to it
	Mapped uint64 // what it may have mapped that isn't its own, such as the VM's memory
	Known  bool   // false: that isn't known now, so that nothing can be said of it
}

// nobody stands for processes that have ended (Config.Weigh).
const nobody = 0

// excess is why a worker must end.
type excess struct {
	has, most uint64
	option    string // that would allow it
}

func (e excess) String() string {
	return fmt.Sprintf("%d MiB of the host's memory, more than %d (--set %s)", e.has>>20,
		e.most>>20, e.option)
}

// ofHost is what a worker has beyond its Holding.
type ofHost struct{ private, shared, files uint64 }

// over says which of them have too much: those that exceed what one may have, or else the largest,
// if all together exceed what the VM may have. left is what files have of those that have ended.
func (h HostBounds) over(has map[Process]ofHost, left uint64) map[Process]excess {
	const largest = math.MaxUint64 >> 10 // no sum of some of these wraps
	most := 2*min(h.Process, largest) + h.Beside
	all, files, ends := uint64(0), min(left, largest), map[Process]excess{}
	var first, holder Process
	for p, b := range has {
		all += min(b.private, largest)
		files += min(b.files, largest)
		switch {
		case b.private > most:
			ends[p] = excess{b.private, most, "host-memory"}
		case b.shared > most:
			ends[p] = excess{b.shared, most, "host-memory"}
		}
		if first == nil || b.private > has[first].private {
			first = p
		}
		if holder == nil || b.files > has[holder].files {
			holder = p
		}
	}
	beside := uint64(len(has)) * h.Beside
	mostOfVM, mostInFiles := min(h.VM, largest)+beside, min(h.Files, largest)+beside
	switch {
	case len(ends) > 0 || len(has) == 0:
	case all > mostOfVM:
		ends[first] = excess{all, mostOfVM, "vm-host-memory"}
	case files > mostInFiles: // whose makers have ended, others have: one after the other ends
		ends[holder] = excess{files, mostInFiles, "soft-memory"}
	}
	return ends
}

// ofHosts reads what the workers have. Those of which nothing is known, such as those that have
// just ended, are left out. left is what files have of those that have ended.
func (a *Accounts) ofHosts() (has map[Process]ofHost, left uint64) {
	a.mu.Lock()
	pids := map[Process]int{}
	for p := range a.running {
		if pid, known := p.PID(); known {
			pids[p] = pid
		}
	}
	a.mu.Unlock()
	all := make([]int, 0, len(pids))
	for _, pid := range pids {
		all = append(all, pid)
	}
	bytes, err := a.config.Weigh(all)
	if err != nil {
		a.unweighed.Do(func() {
			a.config.Log.WithError(err).Warn("a worker that was taken over may take any amount " +
				"of the host's memory: nobody can see how much it has")
		})
		return nil, 0
	}
	has = map[Process]ofHost{}
	for p, pid := range pids {
		b, is := bytes[pid]
		if held := a.config.Holding(p); is && held.Known {
			has[p] = ofHost{b.Private - min(b.Private, held.Moved),
				b.Shared - min(b.Shared, held.Mapped), b.Files}
		}
	}
	return has, bytes[nobody].Files
}

// weigh ends workers that have too much of the host's memory at this look and at the last one, as
// memory that was moved in is given back a moment later.
func (a *Accounts) weigh() {
	if a.config.Weigh == nil {
		return
	}
	a.mu.Lock()
	bounds := a.host
	a.mu.Unlock()
	has, left := a.ofHosts()
	now := bounds.over(has, left)
	for p, e := range now {
		if _, again := a.heavy[p]; again {
			p.TooHeavy(e.String())
		}
	}
	a.heavy = now
}
