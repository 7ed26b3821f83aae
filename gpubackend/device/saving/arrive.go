// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"fmt"
	"io"
	"os"

	"github.com/paracuda/paracuda/gpubackend/savedvm"
)

// Arrival is a VM's programs in a stream that Copy wrote, before any of them is made.
type Arrival struct {
	saving *Saving
	record *savedvm.Reader
	images map[int]*os.File // by channel: what came ahead
}

// Arrive begins to read a stream, and says why this VM can't go on from it, before anything is
// done.
func (s *Saving) Arrive(from io.Reader) (_ *Arrival, err error) {
	r, err := savedvm.Open(from)
	if err != nil {
		return nil, err
	}
	if err := r.Header.Suits(s.header()); err != nil {
		return nil, err
	}
	a := &Arrival{s, r, map[int]*os.File{}}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	taken := map[int]bool{}
	for _, p := range r.Programs {
		switch {
		case p.Channel < 0 || p.Channel >= s.config.Channels || taken[p.Channel]:
			return nil, fmt.Errorf("%w has a program in channel %d, where none can be",
				savedvm.ErrSaved, p.Channel)
		case len(p.Name) > maxName:
			return nil, fmt.Errorf("%w has a program with a name of %d bytes", savedvm.ErrSaved,
				len(p.Name))
		}
		taken[p.Channel] = true
		if p.Ahead == 0 {
			continue
		}
		if s.config.Image == nil {
			return nil, fmt.Errorf("%w is of a VM whose memory went ahead", savedvm.ErrSaved)
		}
		if a.images[p.Channel], err = s.config.Image(p.Ahead, p.Channel); err != nil {
			return nil, fmt.Errorf("take up %s (pid %d): %w", p.Name, p.PID, err)
		}
	}
	return a, nil
}

// close gives back memory that came ahead; the workers have their own descriptors by now.
func (a *Arrival) close() {
	for _, f := range a.images {
		f.Close()
	}
}

// maxName is how long a program's name may be. The kernel gives it 15 bytes, each of which becomes
// three if it isn't text.
const maxName = 64

// Take makes a worker of each program while it is read. On an error none is left.
func (a *Arrival) Take() error {
	defer a.close()
	var list []*begun
	err := a.record.Each(func(_ int, in savedvm.Program) (io.WriteCloser, func() error) {
		x := &begun{Program: &Program{Channel: in.Channel, PID: in.PID, Name: in.Name,
			bytes: in.Bytes}}
		list = append(list, x)
		return a.saving.start(x, func(from Source) (Worker, error) {
			from.Image = a.images[in.Channel]
			return a.saving.config.Arrive(x.Program, from)
		})
	})
	if err == nil {
		err = a.saving.join(list)
	}
	if err != nil {
		end(list)
	} else if arrived := a.saving.config.Arrived; arrived != nil {
		for _, x := range list {
			arrived(x.Channel)
		}
	}
	return a.saving.withRoom(a.record.Programs, err)
}
