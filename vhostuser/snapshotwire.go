// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"encoding/binary"
	"fmt"
)

// A snapshot in bytes, little-endian:
//
//	u32 version (1), u32 regions, u32 rings, u32 flags (below)
//	u64 features, u64 protocol features
//	u64 size and u64 offset of the log of dirty pages
//	u64 size and u64 offset of the record, u16 queues, u16 their size, u32 queues shown
//	u64 protocol features shown
//	for each region: u64 guest address, size, front end address, offset in the file
//	for each ring: u64 descriptor table, avail ring, used ring, log, all front-end addresses,
//	  u32 flags of the addresses, u32 flags of the ring, u16 size, u16 base, u32 0
//	for the message, if there is one: u32 request, u32 flags, u32 bytes, u32 descriptors, payload
//
// A snapshot can be written in one way only: what isn't there is zero. Descriptors are elsewhere,
// in the order of FDs.
const (
	snapshotVersion = 1
	snapshotHead    = 16 + 16 + 16 + 16 + 8 + 8
	snapshotRegion  = 32
	snapshotRing    = 32 + 16
	snapshotMessage = 16
)

// Flags of a snapshot: what there is, or was.
const (
	hasChannel = 1 << iota
	hasLog
	hasLogCall
	hasLogMissed
	hasRecord
	hasChosen
	hasRead
	hasDriver
	hasPending
	hasUnread
	hasOutbox

	snapshotFlags = 1<<iota - 1
)

// Flags of a ring.
const (
	ringAddr = 1 << iota
	ringKicked
	ringEnabled
	ringHasEnabled
	ringKick
	ringCall
	ringErr

	ringFlags = 1<<iota - 1
)

var little = binary.LittleEndian

// maxSnapshot is the length of the longest snapshot.
const maxSnapshot = snapshotHead + MaxMemSlots*snapshotRegion + MaxQueues*snapshotRing +
	snapshotMessage + maxPayload

// MaxSnapshot returns how many bytes AppendTo appends at most.
func MaxSnapshot() int { return maxSnapshot }

// bit returns a flag if it is to be set, otherwise 0.
func bit(is bool, flag uint32) uint32 {
	if is {
		return flag
	}
	return 0
}

// AppendTo appends the snapshot in bytes, without its descriptors.
func (p *Snapshot) AppendTo(b []byte) []byte {
	flags := bit(p.Channel != nil, hasChannel) | bit(p.Log.FD != nil, hasLog) |
		bit(p.LogCall != nil, hasLogCall) | bit(p.LogMissed, hasLogMissed) |
		bit(p.RecordFD != nil, hasRecord) | bit(p.Shown.Chosen, hasChosen) |
		bit(p.Shown.Read, hasRead) | bit(p.Shown.Driver, hasDriver) |
		bit(p.Pending != nil, hasPending) | bit(p.Unread, hasUnread) |
		bit(p.Outbox != nil, hasOutbox)
	for _, v := range []uint32{
		snapshotVersion, uint32(len(p.Memory)), uint32(len(p.Rings)), flags,
	} {
		b = little.AppendUint32(b, v)
	}
	for _, v := range []uint64{
		p.Features, p.Protocol, p.Log.Size, p.Log.Offset, p.Record.Size, p.Record.Offset,
	} {
		b = little.AppendUint64(b, v)
	}
	b = little.AppendUint16(little.AppendUint16(b, p.Record.Queues), p.Record.QueueSize)
	b = little.AppendUint32(b, uint32(p.Shown.Queues))
	b = little.AppendUint64(b, p.Shown.Protocol)
	for _, r := range p.Memory {
		for _, v := range []uint64{r.GuestAddr, r.Size, r.UserAddr, r.MmapOffset} {
			b = little.AppendUint64(b, v)
		}
	}
	for _, r := range p.Rings {
		b = r.appendTo(b)
	}
	if m := p.Pending; m != nil {
		for _, v := range []uint32{
			uint32(m.Request), m.Flags, uint32(len(m.Payload)), uint32(len(m.FDs)),
		} {
			b = little.AppendUint32(b, v)
		}
		b = append(b, m.Payload...)
	}
	return b
}

func (r RingSnapshot) appendTo(b []byte) []byte {
	flags := bit(r.HasAddr, ringAddr) | bit(r.Kicked, ringKicked) |
		bit(r.Enabled, ringEnabled) | bit(r.HasEnabled, ringHasEnabled) |
		bit(r.Kick != nil, ringKick) | bit(r.Call != nil, ringCall) |
		bit(r.Err != nil, ringErr)
	for _, v := range []uint64{r.Addr.Desc, r.Addr.Avail, r.Addr.Used, r.Addr.Log} {
		b = little.AppendUint64(b, v)
	}
	b = little.AppendUint32(little.AppendUint32(b, r.Addr.Flags), flags)
	b = little.AppendUint16(little.AppendUint16(b, r.Size), r.Base)
	return little.AppendUint32(b, 0)
}

// ParseSnapshot is the reverse of AppendTo and FDs. It takes the descriptors on success only. What
// it returns has the right form; Restore checks whether it makes sense.
func ParseSnapshot(b []byte, fds []*FD) (*Snapshot, error) {
	if len(b) < snapshotHead {
		return nil, fmt.Errorf("%w: snapshot of %d bytes", ErrSnapshot, len(b))
	}
	if v := little.Uint32(b); v != snapshotVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", ErrSnapshot, v, snapshotVersion)
	}
	regions, rings, flags := little.Uint32(b[4:]), little.Uint32(b[8:]), little.Uint32(b[12:])
	if regions > MaxMemSlots || rings == 0 || rings > MaxQueues || flags&^snapshotFlags != 0 ||
		flags&(hasPending|hasUnread) == hasUnread {
		return nil, fmt.Errorf("%w: %d regions, %d rings, flags %#x", ErrSnapshot, regions, rings,
			flags)
	}
	want := int(snapshotHead + regions*snapshotRegion + rings*snapshotRing)
	if len(b) < want || flags&hasPending == 0 && len(b) > want {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrSnapshot, len(b), want)
	}
	p := parseHead(b, flags)
	if flags&hasPending != 0 {
		var err error
		if p.Pending, err = parsePending(b[want:]); err != nil {
			return nil, err
		}
	}
	p.Memory, p.Rings = make([]Region, regions), make([]RingSnapshot, rings)
	var there []bool // for each of FDs
	b = b[snapshotHead:]
	for i := range p.Memory {
		p.Memory[i] = Region{GuestAddr: little.Uint64(b), Size: little.Uint64(b[8:]),
			UserAddr: little.Uint64(b[16:]), MmapOffset: little.Uint64(b[24:])}
		there = append(there, true)
		b = b[snapshotRegion:]
	}
	for i := range p.Rings {
		var has uint32
		var err error
		if p.Rings[i], has, err = parseRing(b, uint32(i)); err != nil {
			return nil, fmt.Errorf("ring %d: %w", i, err)
		}
		there = append(there, has&ringKick != 0, has&ringCall != 0, has&ringErr != 0)
		b = b[snapshotRing:]
	}
	there = append(there, flags&hasChannel != 0, flags&hasLog != 0, flags&hasLogCall != 0,
		flags&hasRecord != 0)
	if p.Pending != nil {
		for range p.Pending.FDs {
			there = append(there, true)
		}
	}
	if flags&hasOutbox != 0 {
		p.Outbox = &FD{} // a place
		there = append(there, true)
	}
	if err := p.give(fds, there); err != nil {
		return nil, err
	}
	return p, nil
}

// parseHead reads what comes before the regions.
func parseHead(b []byte, flags uint32) *Snapshot {
	return &Snapshot{
		Features: little.Uint64(b[16:]), Protocol: little.Uint64(b[24:]),
		Log: FileSpan{Size: little.Uint64(b[32:]), Offset: little.Uint64(b[40:])},
		Record: InFlight{Size: little.Uint64(b[48:]), Offset: little.Uint64(b[56:]),
			Queues: little.Uint16(b[64:]), QueueSize: little.Uint16(b[66:])},
		LogMissed: flags&hasLogMissed != 0, Unread: flags&hasUnread != 0,
		Shown: Shown{
			Queues: int(little.Uint32(b[68:])), Protocol: little.Uint64(b[72:]),
			Chosen: flags&hasChosen != 0, Read: flags&hasRead != 0, Driver: flags&hasDriver != 0,
		},
	}
}

// parsePending reads the message, and makes room for its descriptors.
func parsePending(b []byte) (*Message, error) {
	if len(b) < snapshotMessage {
		return nil, fmt.Errorf("%w: message of %d bytes", ErrSnapshot, len(b))
	}
	m := &Message{Request: Request(little.Uint32(b)), Flags: little.Uint32(b[4:])}
	size, fds := little.Uint32(b[8:]), little.Uint32(b[12:])
	b = b[snapshotMessage:]
	if m.Flags&FlagVersionMask != FlagVersion || size > maxPayload || fds > MaxFDs ||
		len(b) != int(size) {
		return nil, fmt.Errorf("%w: message with flags %#x, %d bytes, %d descriptors, in %d bytes",
			ErrSnapshot, m.Flags, size, fds, len(b))
	}
	m.Payload, m.FDs = append([]byte{}, b...), make([]*FD, fds)
	return m, nil
}

// parseRing reads a ring. has says which descriptors it has.
func parseRing(b []byte, index uint32) (r RingSnapshot, has uint32, err error) {
	has = little.Uint32(b[36:])
	r = RingSnapshot{
		Addr: VringAddr{Index: index, Flags: little.Uint32(b[32:]), Desc: little.Uint64(b),
			Avail: little.Uint64(b[8:]), Used: little.Uint64(b[16:]), Log: little.Uint64(b[24:])},
		Size: little.Uint16(b[40:]), Base: little.Uint16(b[42:]),
		HasAddr: has&ringAddr != 0, Kicked: has&ringKicked != 0,
		Enabled: has&ringEnabled != 0, HasEnabled: has&ringHasEnabled != 0,
	}
	if has&^ringFlags != 0 || little.Uint32(b[44:]) != 0 {
		return r, 0, fmt.Errorf("%w: flags %#x", ErrSnapshot, has)
	}
	if !r.HasAddr {
		if r.Addr != (VringAddr{Index: index}) {
			return r, 0, fmt.Errorf("%w: addresses that were not said", ErrSnapshot)
		}
		r.Addr = VringAddr{}
	}
	return r, has, nil
}

// give puts the descriptors in their places.
func (p *Snapshot) give(fds []*FD, there []bool) error {
	if len(fds) != len(there) {
		return fmt.Errorf("%w: %d descriptors, want %d", ErrSnapshot, len(fds), len(there))
	}
	for i, is := range there {
		if (fds[i] != nil) != is {
			return fmt.Errorf("%w: descriptor %d is there: %v, want %v", ErrSnapshot, i,
				fds[i] != nil, is)
		}
	}
	files := there[len(p.Memory)+3*len(p.Rings):]
	if p.Log != (FileSpan{}) && !files[1] || p.Record != (InFlight{}) && !files[3] {
		return fmt.Errorf("%w: part of a file without its descriptor", ErrSnapshot)
	}
	for i, place := range p.places() {
		*place = fds[i]
	}
	return nil
}
