// SPDX-License-Identifier: Apache-2.0

package takenover

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/memfd"
)

// The layout of the mover's ring (gpubackend/mover/ring.go), which whoever has taken a worker over
// knows.
const (
	ringBytes       = 4096 + 1024*16 + 1<<20
	atTail          = 0
	atTaken         = 4
	atCompletions   = 64
	completionsAt   = 4096
	requestsAt      = 4096 + 1024*16
	requestsBytes   = 1 << 20
	lendUnit        = 2 << 20
	attachKind      = 2
	detachKind      = 4
	lentBytes       = lendUnit
	outOfRange      = 1
	notDone         = math.MaxUint32
	toLent          = 1 // a flag of a request: otherwise from it
	maxRuns         = 4096
	recordHeadBytes = 40
)

// run is a range of the guest's memory.
type run struct{ address, bytes uint64 }

// mover is a worker's connection to the mover.
type mover struct {
	fd     int
	ringFD int
	ring   []byte
	wake   int
	lent   []byte // what it lends, as number 1
	// of the driver's, for the pages that the next request names; 0: it names guest memory
	voucher uint32
}

// connect asks the device process for the mover, and lends that memory. nil: there is no mover.
func (w *worker) connect() *mover {
	w.tell(handover.KindMover)
	answer, files := w.await(handover.KindMover)
	if answer == nil || !answer.Files.Conn {
		return nil
	}
	n := answer.Name(files)
	m := &mover{fd: n.Conn, ringFD: n.Ring, wake: n.Wake}
	_ = unix.SetNonblock(m.fd, false)
	_ = unix.SetNonblock(m.wake, true)
	var err error
	if m.ring, err = unix.Mmap(m.ringFD, 0, ringBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		return nil
	}
	file := lends(lentBytes)
	if m.lent, err = unix.Mmap(file, 0, lentBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil || !m.attach(file, 0, lentBytes) {
		return nil
	}
	return m
}

// lends makes memory that can be lent.
func lends(size uint64) int {
	fd, err := memfd.Make(memfd.Form{Kind: memfd.Created, Bytes: size})
	if err != nil {
		panic(err)
	}
	return fd
}

// say sends the mover a message.
func (m *mover) say(kind, number uint32, value uint64, files ...int) {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, number)
	m.send(binary.LittleEndian.AppendUint64(b, value), files...)
}

func (m *mover) send(b []byte, files ...int) {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	_ = unix.Sendmsg(m.fd, b, rights, nil, unix.MSG_NOSIGNAL)
}

// answer waits for the mover's answer. false: it has closed the connection, or doesn't answer.
func (m *mover) answer() (value uint64, is bool) {
	b := make([]byte, 64)
	for end := time.Now().Add(patience); ; {
		left := unix.NsecToTimespec(max(0, time.Until(end).Nanoseconds()))
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}}, &left, nil)
		if err == nil && n == 1 {
			break
		}
		if err == nil || err != unix.EINTR {
			return 0, false
		}
	}
	n, err := unix.Read(m.fd, b)
	if err != nil || n < 16 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[8:]), true
}

// attach lends memory, and says whether it was taken.
func (m *mover) attach(file int, start uint32, size uint64) bool {
	m.say(attachKind, start, size, file)
	value, is := m.answer()
	return is && value == 0
}

// publish tells the mover how many bytes of requests the ring has.
func (m *mover) publish(tail uint32) {
	atomic.StoreUint32(m.word(atTail), tail)
	_, _ = unix.Write(m.wake, make([]byte, 8))
}

// record writes a request to the beginning of the ring.
func (m *mover) record(flags, lent uint32, offset uint64, runs ...run) uint32 {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(recordHeadBytes+16*len(runs)))
	b = le.AppendUint32(b, flags)
	b = le.AppendUint64(b, 1)
	b = le.AppendUint32(b, lent)
	b = le.AppendUint32(b, uint32(len(runs)))
	b = le.AppendUint64(b, offset)
	b = le.AppendUint64(b, uint64(m.voucher))
	for _, r := range runs {
		b = le.AppendUint64(le.AppendUint64(b, r.address), r.bytes)
	}
	return uint32(copy(m.ring[requestsAt:], b))
}

// status waits for the first completion: notDone if the connection was closed, or none comes.
func (m *mover) status() uint32 {
	end := time.Now().Add(patience)
	for ; time.Now().Before(end); time.Sleep(time.Millisecond) {
		if atomic.LoadUint32(m.word(atCompletions)) != 0 {
			return binary.LittleEndian.Uint32(m.ring[completionsAt+8:])
		}
		if m.closed() {
			break
		}
	}
	return notDone
}

// closed says whether the mover has closed the connection.
func (m *mover) closed() bool {
	fds := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLRDHUP}}
	now := unix.Timespec{}
	n, err := unix.Ppoll(fds, &now, nil)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLRDHUP|unix.POLLERR) != 0
}

// ends waits until the mover has closed the connection, and says so if it doesn't.
func (m *mover) ends() string {
	for end := time.Now().Add(patience); !m.closed(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return "the mover keeps the connection"
		}
	}
	return ""
}

// copying is a deed with a connection to the mover.
func copying(name string, do func(w *worker, m *mover) string) Deed {
	return Deed{Kind: "mover", Name: name, do: func(w *worker) string {
		m := w.connect()
		if m == nil {
			return "no mover: the deed wasn't done"
		}
		return do(w, m)
	}}
}

// outside asks for a copy that must be refused, and checks that nothing was copied.
func outside(name string, flags, lent uint32, offset uint64, runs ...run) Deed {
	return copying(name, func(_ *worker, m *mover) string {
		mark := bytes.Repeat([]byte{0xa5}, lentBytes)
		copy(m.lent, mark)
		m.publish(m.record(flags, lent, offset, runs...))
		if s := m.status(); s != outOfRange && s != notDone {
			return "the mover copied"
		}
		if !bytes.Equal(m.lent, mark) {
			return "the mover wrote"
		}
		return ""
	})
}

// breaks writes what no worker does: the mover must close the connection.
func breaks(name string, write func(m *mover)) Deed {
	return copying(name, func(_ *worker, m *mover) string {
		write(m)
		return m.ends()
	})
}

// refusedLoan lends what the mover mustn't take.
func refusedLoan(name string, file func(w *worker, m *mover) int, start uint32, size uint64) Deed {
	return copying("lends "+name, func(w *worker, m *mover) string {
		if m.attach(file(w, m), start, size) {
			return "the mover took it"
		}
		return ""
	})
}

// copies are what a worker asks of the mover.
func copies() []Deed {
	const end = guestBytes
	memory := func(*worker, *mover) int { return lends(lentBytes) }
	loose := func(w *worker, _ *mover) int { return w.had.loose }
	many := make([]run, maxRuns)
	return []Deed{
		copying("what it may ask for", func(w *worker, m *mover) string {
			copy(w.ram[Report+ReportBytes:], "the guest's")
			m.publish(m.record(toLent, 1, 0, run{Report + ReportBytes, 64}))
			if s := m.status(); s != 0 || !bytes.HasPrefix(m.lent, []byte("the guest's")) {
				return "nothing was copied: the other deeds prove nothing"
			}
			return ""
		}),
		outside("behind the guest's memory", toLent, 1, 0, run{end, 4096}),
		outside("to behind it", 0, 1, 0, run{end, 4096}),
		outside("to all addresses", 0, 1, 0, run{0, math.MaxUint64}),
		outside("across its end", toLent, 1, 0, run{end - 4096, 8192}),
		outside("around the end of all addresses", toLent, 1, 0, run{math.MaxUint64 - 4095, 8192}),
		outside("all addresses", toLent, 1, 0, run{0, math.MaxUint64}),
		outside("one run of many that is outside", toLent, 1, 0, run{0, 4096}, run{4096, 4096},
			run{end, 1}),
		outside("runs whose sum wraps", toLent, 1, 0, run{0, 1 << 63}, run{0, 1 << 63}),
		outside("more than was lent", toLent, 1, 0, run{0, lentBytes + 1}),
		outside("from behind what was lent", toLent, 1, lentBytes, run{0, 4096}),
		outside("an offset without end", toLent, 1, math.MaxUint64, run{0, 4096}),
		outside("what wasn't lent", toLent, 2, 0, run{0, 4096}),
		outside("number 0", toLent, 0, 0, run{0, 4096}),
		outside("number 2^32-1", toLent, math.MaxUint32, 0, run{0, 4096}),
		breaks("unknown flags", func(m *mover) { m.publish(m.record(4, 1, 0, run{0, 64})) }),
		breaks("more runs than a record has", func(m *mover) {
			n := m.record(0, 1, 0, run{0, 64})
			binary.LittleEndian.PutUint32(m.ring[requestsAt+20:], 9)
			m.publish(n)
		}),
		breaks("more runs than there may be", func(m *mover) {
			m.publish(m.record(0, 1, 0, append(many, run{})...))
		}),
		breaks("more bytes than the ring has", func(m *mover) { m.publish(requestsBytes + 8) }),
		breaks("an odd tail", func(m *mover) { m.publish(4) }),
		breaks("a record without a size", func(m *mover) { m.publish(64) }),
		breaks("a record past the tail", func(m *mover) {
			m.record(0, 1, 0, run{0, 64}, run{0, 64})
			m.publish(32)
		}),
		breaks("completions that nobody gave", func(m *mover) {
			atomic.StoreUint32(m.word(atTaken), 5)
			m.publish(m.record(0, 1, 0, run{0, 64}))
		}),
		breaks("nonsense", func(m *mover) {
			for i := range m.ring[requestsAt:] {
				m.ring[requestsAt+i] = byte(i*7 + 1)
			}
			m.publish(requestsBytes)
		}),
		breaks("a message of no kind", func(m *mover) { m.say(77, 0, 0) }),
		breaks("a message that is short", func(m *mover) { m.send([]byte{1}) }),
		breaks("a message that is long", func(m *mover) { m.send(make([]byte, 4096)) }),
		breaks("a loan without a file", func(m *mover) { m.say(attachKind, 0, 4096) }),
		breaks("what wasn't lent, back", func(m *mover) { m.say(detachKind, 9, 0) }),
		refusedLoan("memory that can be cut short", loose, 0, lentBytes),
		refusedLoan("more than the file has", memory, 0, lentBytes+1),
		refusedLoan("nothing", memory, 0, 0),
		refusedLoan("all addresses", memory, 0, math.MaxUint64),
		refusedLoan("from behind the file", memory, 7, lentBytes),
		refusedLoan("a socket", func(_ *worker, m *mover) int { return m.fd }, 0, lentBytes),
		refusedLoan("an event", func(w *worker, _ *mover) int { return w.files.Kick }, 0,
			lentBytes),
		copying("loans without end", func(_ *worker, m *mover) string {
			file := lends(1 << 30)
			for i := range 100_000 {
				if !m.attach(file, 0, 1<<30) {
					return ""
				}
				if i == 2000 {
					return "the mover takes 2 TiB"
				}
			}
			return ""
		}),
		copying("it cuts the ring short", func(_ *worker, m *mover) string {
			if unix.Ftruncate(m.ringFD, 0) == nil {
				return "the ring was cut short"
			}
			return ""
		}),
		copying("the ring changes all the time", func(_ *worker, m *mover) string {
			n := m.record(toLent, 1, 0, run{0, 64})
			for i := range 200_000 {
				atomic.StoreUint32(m.word(requestsAt), uint32(i*13))
				atomic.StoreUint32(m.word(requestsAt+20), uint32(i%5))
				m.publish(n * uint32(i%300))
			}
			return ""
		}),
		copying("it takes no completion", func(_ *worker, m *mover) string {
			n := m.record(toLent, 1, 0, run{0, 1 << 20})
			for i := uint32(1); i < 10; i++ {
				copy(m.ring[requestsAt+int(i*n):], m.ring[requestsAt:requestsAt+int(n)])
			}
			for i := range uint32(4000) {
				m.publish(min(i, 9) * n)
			}
			return ""
		}),
		copying("it is gone in the middle", func(_ *worker, m *mover) string {
			n := m.record(1, 1, 0, run{1 << 20, lentBytes})
			for i := uint32(1); i < 100; i++ {
				copy(m.ring[requestsAt+int(i*n):], m.ring[requestsAt:requestsAt+int(n)])
			}
			m.publish(100 * n)
			_ = unix.Close(m.fd)
			return ""
		}),
	}
}
