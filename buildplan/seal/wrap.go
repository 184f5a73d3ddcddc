package seal

import (
	"crypto/cipher"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

// Layout of a wrapped secret: 0x01 | nonce[24] | ciphertext.
const (
	wrap1           = 0x01
	wrapHeaderBytes = 1 + SaltBytes
	// wrapOverhead is the number of bytes that wrapping adds to a secret.
	wrapOverhead = wrapHeaderBytes + chacha20poly1305.Overhead
)

// ErrUnwrap is the error for a wrapped secret that cannot be opened.
var ErrUnwrap = errors.New("seal: wrong key-encryption key or label, or the wrapped secret is damaged")

// KEKIDBytes is the length of the id of a key-encryption key.
const KEKIDBytes = 16

// KEKID returns the id by which a key-encryption key is named where others may read it. It reveals
// nothing of the key.
func KEKID(kek [secretBytes]byte) []byte { return expandKey(kek[:], nil, labelKEK, KEKIDBytes) }

// Wrap encrypts a secret for the replicated state, such as an epoch's key or the key of the
// zone's CA, under the zone's key-encryption key. The label names the secret, such as
// "epoch/0a1b2c3d", and must be given again to Unwrap, so that one wrapped secret cannot
// stand in for another. The nonce must be random and never used before.
func Wrap(kek [secretBytes]byte, label string, plaintext []byte, nonce [SaltBytes]byte) []byte {
	out := make([]byte, 0, wrapOverhead+len(plaintext))
	out = append(out, wrap1)
	out = append(out, nonce[:]...)
	return wrapCipher(kek).Seal(out, nonce[:], plaintext, wrapAssociated(label))
}

// Unwrap returns what Wrap was given, or ErrUnwrap.
func Unwrap(kek [secretBytes]byte, label string, wrapped []byte) ([]byte, error) {
	if len(wrapped) < wrapOverhead || wrapped[0] != wrap1 {
		return nil, ErrUnwrap
	}
	nonce, sealed := wrapped[1:wrapHeaderBytes], wrapped[wrapHeaderBytes:]
	plaintext, err := wrapCipher(kek).Open(nil, nonce, sealed, wrapAssociated(label))
	if err != nil {
		return nil, ErrUnwrap // err has no more detail
	}
	return plaintext, nil
}

func wrapCipher(kek [secretBytes]byte) cipher.AEAD {
	return newCipher(expandKey(kek[:], nil, labelWrap, chacha20poly1305.KeySize))
}

func wrapAssociated(label string) []byte {
	return appendField(appendField(nil, []byte{wrap1}), label)
}
