// SPDX-License-Identifier: Apache-2.0

package vhostuser

import (
	"encoding/binary"
	"fmt"
)

// The protocol uses the host's byte order.
var wire = binary.NativeEndian

// noFD in the word of SET_VRING_KICK, CALL and ERR says that no descriptor comes along.
const noFD = 1 << 8

// VringState is the payload of SET_VRING_NUM, BASE and ENABLE and GET_VRING_BASE.
type VringState struct{ Index, Num uint32 }

// AppendTo appends the payload.
func (v VringState) AppendTo(b []byte) []byte {
	return wire.AppendUint32(wire.AppendUint32(b, v.Index), v.Num)
}

func decodeState(b []byte) (VringState, error) {
	if len(b) != 8 {
		return VringState{}, fmt.Errorf("%w: vring state of %d bytes", ErrProtocol, len(b))
	}
	return VringState{wire.Uint32(b), wire.Uint32(b[4:])}, nil
}

// VringAddr is the payload of SET_VRING_ADDR. Addresses are the front end's own.
type VringAddr struct {
	Index, Flags           uint32
	Desc, Used, Avail, Log uint64
}

// AppendTo appends the payload.
func (v VringAddr) AppendTo(b []byte) []byte {
	b = wire.AppendUint32(wire.AppendUint32(b, v.Index), v.Flags)
	for _, a := range []uint64{v.Desc, v.Used, v.Avail, v.Log} {
		b = wire.AppendUint64(b, a)
	}
	return b
}

// sameRings reports whether two are the same, except for the log.
func (v VringAddr) sameRings(o VringAddr) bool {
	return v.Index == o.Index && v.Desc == o.Desc && v.Used == o.Used && v.Avail == o.Avail
}

func decodeAddr(b []byte) (VringAddr, error) {
	if len(b) != 40 {
		return VringAddr{}, fmt.Errorf("%w: vring address of %d bytes", ErrProtocol, len(b))
	}
	return VringAddr{
		Index: wire.Uint32(b), Flags: wire.Uint32(b[4:]),
		Desc: wire.Uint64(b[8:]), Used: wire.Uint64(b[16:]),
		Avail: wire.Uint64(b[24:]), Log: wire.Uint64(b[32:]),
	}, nil
}

// ConfigAccess is the payload of GET_CONFIG and SET_CONFIG.
type ConfigAccess struct {
	Offset, Flags uint32
	Data          []byte
}

// AppendTo appends the payload.
func (c ConfigAccess) AppendTo(b []byte) []byte {
	b = wire.AppendUint32(wire.AppendUint32(b, c.Offset), uint32(len(c.Data)))
	return append(wire.AppendUint32(b, c.Flags), c.Data...)
}

// decodeConfig accepts an access whose size field agrees with the payload.
func decodeConfig(b []byte) (ConfigAccess, error) {
	if len(b) < configHeader {
		return ConfigAccess{}, fmt.Errorf("%w: config access of %d bytes", ErrProtocol, len(b))
	}
	c := ConfigAccess{wire.Uint32(b), wire.Uint32(b[8:]), b[configHeader:]}
	if size := wire.Uint32(b[4:]); uint64(size) != uint64(len(c.Data)) {
		return c, fmt.Errorf("%w: config access of %d bytes carries %d", ErrProtocol, size,
			len(c.Data))
	}
	return c, nil
}

// AppendRegion appends a region of a memory table, without its descriptor.
func AppendRegion(b []byte, r Region) []byte {
	for _, v := range []uint64{r.GuestAddr, r.Size, r.UserAddr, r.MmapOffset} {
		b = wire.AppendUint64(b, v)
	}
	return b
}

// decodeRegion reads a region of 32 bytes.
func decodeRegion(b []byte) Region {
	return Region{
		GuestAddr: wire.Uint64(b), Size: wire.Uint64(b[8:]),
		UserAddr: wire.Uint64(b[16:]), MmapOffset: wire.Uint64(b[24:]),
	}
}

// AppendMemTable appends the payload of SET_MEM_TABLE.
func AppendMemTable(b []byte, regions []Region) []byte {
	b = wire.AppendUint64(b, uint64(len(regions)))
	for _, r := range regions {
		b = AppendRegion(b, r)
	}
	return b
}

// decodeMemTable reads the payload of SET_MEM_TABLE. It may be longer than its count says, as some
// front ends send their whole structure.
func decodeMemTable(b []byte) ([]Region, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("%w: memory table of %d bytes", ErrProtocol, len(b))
	}
	n := wire.Uint32(b)
	if n > MaxFDs || len(b) < 8+int(n)*regionSize {
		return nil, fmt.Errorf("%w: memory table of %d regions in %d bytes", ErrProtocol, n, len(b))
	}
	regions := make([]Region, n)
	for i := range regions {
		regions[i] = decodeRegion(b[8+i*regionSize:])
	}
	return regions, nil
}

// decodeWord reads a payload of one u64.
func decodeWord(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: word of %d bytes", ErrProtocol, len(b))
	}
	return wire.Uint64(b), nil
}

// word makes a payload of one u64.
func word(v uint64) []byte { return wire.AppendUint64(nil, v) }
