// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend/device/passes"
	"github.com/paracuda/paracuda/gpubackend/fileat"
	"github.com/paracuda/paracuda/gpubackend/overlap"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
	"github.com/paracuda/paracuda/gpubackend/sectorsum"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// early is device memory that is written to a file while the programs run. A sector that is copied
// again takes its old place. If the programs went on from this file, it is written behind what the
// file has, and only what has changed since.
type early struct {
	file     *os.File
	origin   *origin // nil: the file has nothing
	area     savedvm.Area
	copies   *passes.Session
	programs map[passes.Worker]map[uint64]savedvm.Sector // by address
	written  atomic.Uint64                               // bytes
	took     time.Duration
}

// Take implements passes.Sink.
func (e *early) Take(p passes.Program, addresses []uint64, b []byte) error {
	list := e.programs[p.Worker]
	if list == nil {
		list = map[uint64]savedvm.Sector{}
		e.programs[p.Worker] = list
	}
	sectors := make([]savedvm.Sector, len(addresses))
	_ = overlap.Each(len(sectors), func(i int) error {
		sectors[i].Sum = savedvm.SumOf(b[i*sectorsum.Bytes:][:sectorsum.Bytes])
		return nil
	})
	for i, at := range addresses {
		if old, ok := list[at]; ok {
			sectors[i].Number = old.Number
		} else if sectors[i].Number = e.area.Sectors; e.area.Sectors == savedvm.MaxSectors {
			return errLarge
		} else {
			e.area.Sectors++
		}
		list[at] = sectors[i]
	}
	return e.write(sectors, b)
}

var errLarge = errors.New("the programs have too much device memory to write it while they run: " +
	"give --stop-first")

// write writes sectors, those together that have places one behind the other.
func (e *early) write(sectors []savedvm.Sector, b []byte) error {
	for len(sectors) > 0 {
		n := 1
		for n < len(sectors) && sectors[n].Number == sectors[n-1].Number+1 {
			n++
		}
		part := b[:n*sectorsum.Bytes]
		at := e.area.At(sectors[0].Number)
		if _, err := fileat.WriteParts(int(e.file.Fd()), [][]byte{part}, at); err != nil {
			return fmt.Errorf("write the file: %w", err)
		}
		e.written.Add(uint64(len(part)))
		sectors, b = sectors[n:], b[len(part):]
	}
	return nil
}

// Bounds of the passes.
const (
	mostPasses = 8
	// The programs stop when a pass has found less than this part of all memory to copy,
	fewPart = 64
	// or more than this part of what the pass before it has copied: they write faster.
	morePart = 2
)

// passes copies memory until little of it changes meanwhile, or a further pass won't help.
func (e *early) passes(stop <-chan struct{}) error {
	last := uint64(0)
	for n := range mostPasses {
		begin := e.written.Load()
		whole, err := e.copies.Pass(func() bool {
			select {
			case <-stop:
				return false
			default:
				return n == 0 || e.written.Load()-begin <= last/morePart
			}
		})
		if err != nil || !whole {
			return err
		}
		last = e.written.Load() - begin
		if last <= e.all()/fewPart {
			return nil
		}
	}
	return nil
}

// all is about how much memory the programs have.
func (e *early) all() uint64 {
	return max(uint64(e.area.Sectors)*sectorsum.Bytes, e.origin.bytes())
}

// filed says whether the file has had memory of a worker's program.
func (e *early) filed(w passes.Worker) bool {
	x, ok := w.(Worker)
	base, _ := e.origin.of(x)
	return ok && base != nil
}

// end writes the area's head, when nothing more is copied.
func (e *early) end() error {
	if _, err := fileat.Write(int(e.file.Fd()), e.area.Head(), e.area.Start); err != nil {
		return fmt.Errorf("write the file: %w", err)
	}
	return nil
}

// of are the sectors of a worker's program, in the order of their addresses; none: the file has
// nothing of it.
func (e *early) of(w Worker) (list []savedvm.Sector) {
	if e == nil || !e.copies.Has(w) {
		return nil
	}
	x, _ := w.(passes.Worker) // it has copied
	for _, at := range slices.Sorted(maps.Keys(e.programs[x])) {
		list = append(list, e.programs[x][at])
	}
	return list
}

// writeEarly writes device memory to a file while the programs run, for as long as awaited returns
// nil: to one without content, or behind that of the one they went on from. It returns nil if
// nothing is to be written before the programs stop.
func (s *Saving) writeEarly(
	f *os.File, awaited func() error, tell func(suspend.Progress),
) (*early, error) {
	to, origin, err := s.behind(f)
	if err != nil || s.config.Passes == nil ||
		s.config.Suspension.State() != suspend.Running || s.Movable() != nil {
		return nil, nil // what is going to be refused is refused at once
	}
	begin := time.Now()
	e := &early{file: f, origin: origin, area: savedvm.Area{Start: to.start},
		programs: map[passes.Worker]map[uint64]savedvm.Sector{}}
	if e.copies, err = s.config.Passes.Begin(e, e.filed); err != nil {
		return nil, nil // memory goes somewhere else just now, and all to the file at once
	}
	err = s.attended(awaited, tell, e)
	if err == nil && e.area.Sectors > 0 {
		err = e.end()
	}
	if err != nil || e.area.Sectors == 0 {
		e.copies.Close()
		return nil, errors.Join(err, s.takeBack(to, origin))
	}
	e.took = time.Since(begin)
	return e, nil
}

// attended makes the passes, and stops them when nobody awaits their end.
func (s *Saving) attended(
	awaited func() error, tell func(suspend.Progress), e *early,
) (err error) {
	stop, ended := make(chan struct{}), make(chan error, 1)
	s.config.Run("memory that is written while programs run", func() {
		err := errors.New("an internal fault: see the log of the device process")
		defer func() { ended <- err }()
		err = e.passes(stop)
	})
	ticker := time.NewTicker(earlyPause)
	defer ticker.Stop()
	for {
		select {
		case said := <-ended:
			return cmp.Or(err, said)
		case <-ticker.C:
			if err == nil {
				tell(suspend.Progress{Done: e.written.Load(), Early: true})
				if err = awaited(); err != nil {
					close(stop)
				}
			}
		}
	}
}

// earlyPause is the time between two reports of progress.
const earlyPause = 250 * time.Millisecond
