// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/memword"
	"github.com/paracuda/paracuda/gpubackend/mover/link"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// The ring: a sealed file in memory, one for each connection (package link). Positions count up
// and wrap at 2^32. Requests are records in a ring of bytes, none of which crosses its end;
// completions are entries of a fixed size.
const (
	offRequestTail    = 0  // worker: end of the requests written
	offCompletionHead = 4  // worker: completions taken
	offWorkerSleeping = 8  // worker: wake me
	offCompletionTail = 64 // mover: completions written
	offRequestHead    = 68 // mover: requests taken
	offMoverSleeping  = 72 // mover: wake me
	offCompletions    = 4096
	completions       = 1024
	completionBytes   = 16
	offRequests       = offCompletions + completions*completionBytes
	requestBytes      = 1 << 20
	ringBytes         = link.RingBytes
)

// The ring ends with the requests.
const (
	_ = uint(ringBytes - offRequests - requestBytes)
	_ = uint(offRequests + requestBytes - ringBytes)
)

// Where a record's head has what.
const (
	atSize     = 0  // u32, of the record
	atFlags    = 4  // u32
	atSequence = 8  // u64
	atStaging  = 16 // u32
	atRuns     = 20 // u32, how many follow
	atOffset   = 24 // u64
	atVoucher  = 32 // u32
	atZero     = 36 // u32
	recordHead = 40
)

// The runs follow: u64 guest-physical address, u64 bytes. With a voucher they are places in its
// map: in place of the address the number of a run, in 16 bits, and the offset in it, in 48.
const (
	runBytes   = 16
	maxRuns    = 4096
	maxRecord  = recordHead + maxRuns*runBytes
	minRecord  = 8
	flagDevice = 1 // to the device; otherwise from it
	flagFiller = 2 // fills the end of the ring
	placeShift = 48
)

// errProtocol marks what no correct worker does; it ends the connection.
var errProtocol = errors.New("the rules of the ring are broken")

// request is a decoded record.
type request struct {
	sequence uint64
	staging  uint32
	offset   uint64
	toDevice bool
	voucher  uint32
	runs     []wire.Run // with a voucher: places
}

// ring is one side's view.
type ring struct {
	fd  int
	mem []byte
}

// openRing maps a ring and takes over its file.
func openRing(fd int) (*ring, error) {
	mem, err := unix.Mmap(fd, 0, ringBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map ring: %w", err)
	}
	return &ring{fd, mem}, nil
}

func (r *ring) close() {
	_ = unix.Munmap(r.mem)
	unix.Close(r.fd)
	r.mem = nil
}

func (r *ring) at(offset int) *uint32 { return memword.Of32(r.mem[offset:]) }

func (r *ring) load(offset int) uint32         { return atomic.LoadUint32(r.at(offset)) }
func (r *ring) store(offset int, value uint32) { atomic.StoreUint32(r.at(offset), value) }

// swap exchanges a word; only the flags of sleepers are written by both sides.
func (r *ring) swap(offset int, value uint32) uint32 {
	return atomic.SwapUint32(r.at(offset), value)
}

// recordAt returns the bytes from a position to the end of the ring.
func (r *ring) recordAt(position uint32) []byte {
	return r.mem[offRequests+int(position%requestBytes) : ringBytes]
}

// complete writes completion number n.
func (r *ring) complete(n uint32, sequence uint64, status status) {
	b := r.mem[offCompletions+int(n%completions)*completionBytes:]
	binary.LittleEndian.PutUint64(b, sequence)
	binary.LittleEndian.PutUint32(b[8:], uint32(status))
}

// completion reads completion number n.
func (r *ring) completion(n uint32) (sequence uint64, s status) {
	b := r.mem[offCompletions+int(n%completions)*completionBytes:]
	return binary.LittleEndian.Uint64(b), status(binary.LittleEndian.Uint32(b[8:]))
}

// recordSize reads the head of the record at position, of which the other side has written
// available bytes, and says how long it is. The record must be copied before anything else in it is
// read.
func (r *ring) recordSize(position, available uint32) (uint32, error) {
	b := r.recordAt(position)
	if available < minRecord {
		return 0, fmt.Errorf("%w: %d bytes of a record", errProtocol, available)
	}
	size := atomic.LoadUint32(memword.Of32(b[atSize:]))
	if size < minRecord || size%8 != 0 || size > available || uint64(size) > uint64(len(b)) {
		return 0, fmt.Errorf("%w: record of %d bytes", errProtocol, size)
	}
	return size, nil
}

// decodeRequest reads a private copy of a record. Runs are appended to runs. A filler has no
// sequence number: ok is false.
func decodeRequest(b []byte, runs []wire.Run) (q request, ok bool, err error) {
	le := binary.LittleEndian
	if len(b) < minRecord {
		return q, false, fmt.Errorf("%w: record of %d bytes", errProtocol, len(b))
	}
	flags := le.Uint32(b[atFlags:])
	if flags == flagFiller {
		return q, false, nil
	}
	if len(b) < recordHead || flags > flagDevice {
		return q, false, fmt.Errorf("%w: record of %d bytes, flags %#x", errProtocol, len(b), flags)
	}
	if pad := le.Uint32(b[atZero:]); pad != 0 {
		return q, false, fmt.Errorf("%w: %#x behind a voucher", errProtocol, pad)
	}
	count := le.Uint32(b[atRuns:])
	if count > maxRuns || len(b) != recordHead+int(count)*runBytes {
		return q, false,
			fmt.Errorf("%w: %d runs in a record of %d bytes", errProtocol, count, len(b))
	}
	q = request{
		sequence: le.Uint64(b[atSequence:]), staging: le.Uint32(b[atStaging:]),
		offset: le.Uint64(b[atOffset:]), voucher: le.Uint32(b[atVoucher:]),
		toDevice: flags&flagDevice != 0,
	}
	for b = b[recordHead:]; len(b) > 0; b = b[runBytes:] {
		runs = append(runs, wire.Run{Address: le.Uint64(b), Bytes: le.Uint64(b[8:])})
	}
	q.runs = runs
	return q, true, nil
}

// appendRecord appends the record of a request to b.
func appendRecord(b []byte, q *request) []byte {
	le := binary.LittleEndian
	var head [recordHead]byte
	if q.toDevice {
		le.PutUint32(head[atFlags:], flagDevice)
	}
	le.PutUint32(head[atSize:], uint32(recordHead+len(q.runs)*runBytes))
	le.PutUint64(head[atSequence:], q.sequence)
	le.PutUint32(head[atStaging:], q.staging)
	le.PutUint32(head[atRuns:], uint32(len(q.runs)))
	le.PutUint64(head[atOffset:], q.offset)
	le.PutUint32(head[atVoucher:], q.voucher)
	b = append(b, head[:]...)
	for _, run := range q.runs {
		b = le.AppendUint64(b, run.Address)
		b = le.AppendUint64(b, run.Bytes)
	}
	return b
}

// wireFiller makes b, the rest of the ring, a filler.
func wireFiller(b []byte) {
	binary.LittleEndian.PutUint32(b[atFlags:], flagFiller)
	binary.LittleEndian.PutUint32(b[atSize:], uint32(len(b)))
}

// recordLength is the length of the first record in b, which this process wrote.
func recordLength(b []byte) int { return int(binary.LittleEndian.Uint32(b[atSize:])) }
