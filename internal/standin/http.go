package standin

import (
	"encoding/json"
	"net/http"
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// fail answers with an error in the shape that the real engine uses.
func fail(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"object": "error", "message": message, "type": http.StatusText(status), "param": nil, "code": status})
}
