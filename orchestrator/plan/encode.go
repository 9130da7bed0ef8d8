package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/disagg/disagg/models"
)

// Encode writes the canonical bytes of a plan: JSON with two blanks of
// indentation, keys in the order of the types, map keys sorted, a newline at
// the end. The same plan gives the same bytes.
func Encode(p *models.Plan) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(p); err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return b.Bytes(), nil
}

// Hash is the SHA-256 of the canonical bytes, in hex. It is also the hash of
// plan.json in a run directory.
func Hash(p *models.Plan) (string, error) {
	data, err := Encode(p)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// Decode reads a plan. It refuses another schema version, keys that this build
// does not know, and anything after the plan: a plan that was written by
// another version must not be run by half.
func Decode(data []byte) (*models.Plan, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Tool       string `json:"tool"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	if head.APIVersion != models.APIVersion {
		return nil, fmt.Errorf("read plan: apiVersion is %q, this build reads %q; it was written by version %q", head.APIVersion, models.APIVersion, head.Tool)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	p := &models.Plan{}
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("read plan: %w; it was written by version %q", err, head.Tool)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read plan: there is something after the plan")
	}
	return p, nil
}
