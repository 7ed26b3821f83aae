// SPDX-License-Identifier: Apache-2.0

package vhostuser

import "fmt"

// setMemTable replaces the whole table.
func (s *Session) setMemTable(m *Message) ([]byte, error) {
	regions, err := decodeMemTable(m.Payload)
	if err != nil {
		return nil, err
	}
	if len(regions) != len(m.FDs) {
		return nil, fmt.Errorf("%w: %d regions with %d descriptors", ErrProtocol, len(regions),
			len(m.FDs))
	}
	for i := range regions {
		regions[i].FD = m.FDs[i]
	}
	mem, err := NewMemory(regions)
	if err != nil {
		return nil, err
	}
	old := s.memory
	return nil, s.setMemory(mem, true, func() {
		m.takeFDs()
		_ = old.Close()
	})
}

// addMemReg adds a region; rings go on.
func (s *Session) addMemReg(m *Message) ([]byte, error) {
	if len(m.FDs) != 1 {
		return nil, fmt.Errorf("%w: no descriptor", ErrProtocol)
	}
	region, err := singleRegion(m.Payload)
	if err != nil {
		return nil, err
	}
	if len(s.memory.regions) >= MaxMemSlots {
		return nil, fmt.Errorf("%w: more than %d regions", ErrProtocol, MaxMemSlots)
	}
	region.FD = m.FDs[0]
	mem, err := NewMemory(append(s.memory.Regions(), region))
	if err != nil {
		return nil, err
	}
	return nil, s.setMemory(mem, false, func() { m.takeFD() })
}

// remMemReg removes a region. A descriptor that some front ends send along is ignored.
func (s *Session) remMemReg(m *Message) ([]byte, error) {
	region, err := singleRegion(m.Payload)
	if err != nil {
		return nil, err
	}
	var keep []Region
	var gone *FD
	for _, r := range s.memory.regions {
		if r.sameRange(region) {
			gone = r.FD
		} else {
			keep = append(keep, r)
		}
	}
	if gone == nil {
		return nil, fmt.Errorf("%w: no region of %d bytes at %#x", ErrProtocol, region.Size,
			region.GuestAddr)
	}
	return nil, s.setMemory(&Memory{regions: keep}, true, func() { _ = gone.Close() })
}

// singleRegion reads the payload of ADD_MEM_REG and REM_MEM_REG.
func singleRegion(b []byte) (Region, error) {
	if len(b) != 8+regionSize {
		return Region{}, fmt.Errorf("%w: region of %d bytes", ErrProtocol, len(b))
	}
	return decodeRegion(b[8:]), nil
}
