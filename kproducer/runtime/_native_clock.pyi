WALL_MS: object
