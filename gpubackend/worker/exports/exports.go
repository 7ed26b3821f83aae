// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"math"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Sender is the connection to the device process.
type Sender interface {
	Send(m *handover.Message, fds []int) error
}

// Interface is what those who own such objects use of an Exports.
type Interface interface {
	Number() uint32
	GaveOut(number uint32)
	Offer(o handover.Object, device uint64, file int) gpubackend.Result
	Withdraw(kind handover.ObjectKind, number uint32)
	Take(number uint64, kind handover.ObjectKind) (Imported, gpubackend.Result)
}

// Exports are objects that go to other processes and come from them.
type Exports struct {
	sender Sender
	gpus   func() []uint64 // ids of the process's GPUs, by its own numbers
	// receive returns memory that a process offers under a token
	receive func(token uint64) (bytes uint64, fd int, err error)
	log     *logrus.Entry

	mu      sync.Mutex
	waiting map[uint32]Imported // handed over, but not yet named by the guest's library
	recent  []sent              // offers, which may be lost with a device process
	last    uint32              // import that was handed over
	closed  bool
	offered uint32 // the last number of something that is offered: the loop's alone
}

// sent is an offer, and its file or -1.
type sent struct {
	message *handover.Message
	file    int
}

// maxRecent is how many offers are sent again: more than are on their way at a time, since the
// guest's library claims an object as soon as it has offered it.
const maxRecent = 16

// New returns an empty Exports. gpus returns the ids of the process's GPUs, by its own numbers, and
// receive memory that a process of the VM offers under a token.
func New(
	s Sender, gpus func() []uint64, receive func(token uint64) (bytes uint64, fd int, err error),
	log *logrus.Entry,
) *Exports {
	return &Exports{sender: s, gpus: gpus, receive: receive, log: log,
		waiting: map[uint32]Imported{}}
}

// Number is a number for something that this process offers; 0 if there are no more.
func (s *Exports) Number() uint32 {
	if s.offered < math.MaxUint32 {
		s.offered++
		return s.offered
	}
	return 0
}

// GaveOut says that a number was given out before the program went on from a record.
func (s *Exports) GaveOut(number uint32) { s.offered = max(s.offered, number) }

// Waiting is how many objects were handed over that the guest's library hasn't named.
func (s *Exports) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

// Imported is an object, its GPU by this process's number for it, and its file or -1.
type Imported struct {
	handover.Object
	Device uint64
	File   int
}

// MaxWaiting bounds how many objects a guest can leave here unnamed.
const MaxWaiting = 1 << 6

// Close closes the file.
func (x *Imported) Close() {
	if x.File >= 0 {
		unix.Close(x.File)
	}
}

// Accept takes an object over and returns the answer to the message.
func (s *Exports) Accept(m *handover.Message, fds []int) *handover.Message {
	x := Imported{File: m.Name(fds).Object}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &handover.Message{Kind: handover.KindTaken}
	switch {
	case m.Object == nil:
		answer.Error = "no object"
	case s.closed:
		answer.Error = "the process is ending"
	case m.Object.Again && s.had(m.Object.Import):
	case len(s.waiting) >= MaxWaiting:
		answer.Error = "too many objects that the process doesn't ask for"
	default:
		x.Object = *m.Object
		s.last = x.Import
		s.wait(x)
		return answer
	}
	x.Close()
	return answer
}

// had says whether an object was named, or is waiting.
func (s *Exports) had(number uint32) bool {
	_, waits := s.waiting[number]
	return waits || number <= s.last
}

// wait has an object wait until it is named. One with its number is of an earlier device process,
// which counted on its own, and won't be named any more.
func (s *Exports) wait(x Imported) {
	if old, ok := s.waiting[x.Import]; ok {
		old.Close()
	}
	s.waiting[x.Import] = x
}

// Close closes the files that nobody took, and those of offers. Later ones are refused.
func (s *Exports) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, o := range s.recent {
		o.close()
	}
	s.recent = nil
	for number, x := range s.waiting {
		x.Close()
		delete(s.waiting, number)
	}
}

// Take returns the object that has a number, once. The caller closes it. One of a GPU that this
// process doesn't see is refused.
func (s *Exports) Take(number uint64, kind handover.ObjectKind) (Imported, gpubackend.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.waiting[uint32(number)]
	if !ok || number>>32 != 0 {
		return Imported{File: -1}, gpubackend.InvalidValue
	}
	delete(s.waiting, uint32(number))
	if x.Kind != kind {
		x.Close()
		return Imported{File: -1}, gpubackend.InvalidValue
	}
	device := slices.Index(s.gpus(), x.GPU)
	if device < 0 {
		x.Close()
		return Imported{File: -1}, gpubackend.InvalidDevice
	}
	x.Device = uint64(device)
	return x, gpubackend.Success
}

// Withdraw tells the device process that an object is gone. Until then the device process keeps it
// for a claim that may never come.
func (s *Exports) Withdraw(kind handover.ObjectKind, number uint32) {
	if number == 0 {
		return
	}
	s.forget(number)
	m := &handover.Message{Kind: handover.KindWithdraw,
		Object: &handover.Object{Kind: kind, Number: number}}
	if err := s.sender.Send(m, nil); err != nil {
		s.log.WithError(err).Warn("can't withdraw an object from other processes")
	}
}

// Offer tells the device process of an object of a GPU (by this process's number) that other
// processes may have. The file stays the caller's.
func (s *Exports) Offer(o handover.Object, device uint64, file int) gpubackend.Result {
	gpus := s.gpus()
	if device >= uint64(len(gpus)) {
		return gpubackend.InvalidDevice
	}
	o.GPU = gpus[device]
	m := &handover.Message{Kind: handover.KindOffer, Object: &o}
	m.Files.Object = file >= 0
	offer := sent{m, file}
	if err := offer.send(s.sender); err != nil {
		s.log.WithError(err).Warn("can't offer an object to other processes")
		return gpubackend.OutOfMemory
	}
	s.remember(offer)
	return gpubackend.Success
}

// remember keeps an offer, with a file of its own, until there are enough later ones. If there is
// no descriptor for that it isn't kept: it only matters if the device process dies.
func (s *Exports) remember(o sent) {
	if o.file >= 0 {
		var err error
		if o.file, err = unix.FcntlInt(uintptr(o.file), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent = append(s.recent, o); len(s.recent) > maxRecent || s.closed {
		s.recent[0].close()
		s.recent = slices.Delete(s.recent, 0, 1)
	}
}

// forget is told that an object is gone.
func (s *Exports) forget(number uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = slices.DeleteFunc(s.recent, func(o sent) bool {
		gone := o.message.Object.Number == number
		if gone {
			o.close()
		}
		return gone
	})
}

func (o sent) send(to Sender) error {
	var fds []int
	if o.file >= 0 {
		fds = []int{o.file}
	}
	return to.Send(o.message, fds)
}

func (o sent) close() {
	if o.file >= 0 {
		unix.Close(o.file)
	}
}

// OfferAgain sends the latest offers again: a device process that was killed may have taken one
// without noting it for the next one. Known offers change nothing.
func (s *Exports) OfferAgain() error {
	s.mu.Lock() // an object that is withdrawn meanwhile is so after it is offered
	defer s.mu.Unlock()
	for _, o := range s.recent {
		if err := o.send(s.sender); err != nil {
			return err
		}
	}
	return nil
}
