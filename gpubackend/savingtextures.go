// SPDX-License-Identifier: Apache-2.0

package gpubackend

// ArrayPlace is where an array, or a mipmapped one, has its memory: an address, or what tells the
// device as much.
type ArrayPlace struct {
	Address   uint64
	Array     Array // 0: it is a mipmapped one
	Mipmapped MipmappedArray
}

// SavingTextures makes the same arrays, textures and surfaces on another device. Each is made as it
// was made here, after PlaceCode or NextTexture.
type SavingTextures interface {
	// SavesTextures says whether that is possible at all.
	SavesTextures() bool
	// ArrayPlaces lists the arrays that have memory of their own.
	ArrayPlaces() []ArrayPlace
	// NextTexture sets the number of the texture or surface that is made next: kernels may have
	// kept it. It fails if another one has that number.
	NextTexture(number uint64) error
}

// SavesTextures implements SavingTextures.
func (Unsaved) SavesTextures() bool { return false }

// ArrayPlaces implements SavingTextures.
func (Unsaved) ArrayPlaces() []ArrayPlace { return nil }

// NextTexture implements SavingTextures.
func (Unsaved) NextTexture(uint64) error { return NotSupported.Err() }
