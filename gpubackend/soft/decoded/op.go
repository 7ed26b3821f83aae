// SPDX-License-Identifier: Apache-2.0

package decoded

// An Op names an operation of a warp. The executor knows what executes it.
type Op uint8

const (
	OpNone Op = iota
	// Memory.
	OpLoad
	OpStore
	OpLoadParam // of a kernel's parameter, the same for all lanes
	OpCopyAsync
	OpFence
	OpMbarrierInit
	OpMbarrierArrive
	OpMbarrierTest
	OpMbarrierInval
	// Atomic operations: those that the host's processor has an instruction for, and those that are
	// done by compare and swap.
	OpAdd32
	OpAdd64
	OpSwap32
	OpSwap64
	OpUpdate16
	OpUpdate32
	OpUpdate64
	// Textures and surfaces.
	OpTexture
	OpGather
	OpQueryTexture
	OpQuerySurface
	OpSurfaceLoad
	OpSurfaceStore
	// Special registers that change while a kernel runs. imm is how far the value is shifted.
	OpClock
	OpTimer
	OpActiveMask
	// Among lanes.
	OpVoteAll
	OpVoteAny
	OpVoteUni
	OpBallot
	OpShuffleUp
	OpShuffleDown
	OpShuffleBfly
	OpShuffleIdx
	OpMatchAny
	OpMatchAll
	OpRedux
	OpElect
	OpTrap
	// opAccess is the first of the loads and stores that have a way of their own: see QuickAccess.
	opAccess
)

// An AccessWay is how a load or store finds its addresses.
type AccessWay uint8

const (
	AccessGlobal   AccessWay = iota // by addresses of 64 bits
	AccessShared                    // in a block's shared memory, by addresses of 64 bits
	AccessShared32                  // the same by addresses of 32 bits
	AccessVector                    // any, for several elements
	accessWays
)

// AccessElement is what a load or store moves: an element of memory, and one of a register.
type AccessElement uint8

const (
	Access32     AccessElement = iota // 32 bits in 32 bits
	Access64                          // 64 bits in 64 bits
	Access16                          // 16 bits in 16 bits
	AccessU8in16                      // 8 bits in 16 bits
	AccessS8in16                      // the same with sign
	AccessU8in32                      // 8 bits in 32 bits
	AccessS8in32                      // the same with sign
	accessElements
)

// QuickAccess is the operation of such a load or store.
func QuickAccess(way AccessWay, element AccessElement, store bool) Op {
	op := opAccess + Op(way)*Op(accessElements)*2 + Op(element)*2
	if store {
		op++
	}
	return op
}

// Ops is more than the number of any operation. Vectors have a way for the first elements only.
const Ops = opAccess + Op(AccessVector)*Op(accessElements)*2 + Op(AccessU8in16)*2 + 2
